// SPDX-License-Identifier: GPL-2.0-only
/*
 * fake_qemu - loads the plugin as QEMU would, and says what its installation
 * returned: for the QEMUs that are not at hand. Compiled with the API_VERSION of
 * the plugin, its functions have the arguments of that version.
 *
 *	fake_qemu PLUGIN MIN CUR TARGET system|user [OPTION...]
 *
 * It offers the functions that installing calls, and no others.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu_api.h"

struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size)
{
	return calloc(1, size);
}

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id,
				       WITH_DATA(qemu_plugin_vcpu_simple_cb_t cb))
{
	(void)cb;
	printf("vcpu_init %d\n", id == 42);
}

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   WITH_DATA(qemu_plugin_vcpu_tb_trans_cb_t cb))
{
	(void)cb;
	printf("tb_trans %d\n", id == 42);
}

void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
				    qemu_plugin_udata_cb_t cb, void *userdata)
{
	(void)cb;
	(void)userdata;
	printf("atexit %d\n", id == 42);
}

int main(int argc, char **argv)
{
	int (*install)(qemu_plugin_id_t, const qemu_info_t *, int, char **);
	qemu_info_t info = { 0 };
	int *version;
	void *plugin;

	if (argc < 6)
		return 2;
	plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);	/* as QEMU does */
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	version = dlsym(plugin, "qemu_plugin_version");
	install = dlsym(plugin, "qemu_plugin_install");
	if (!version || !install)
		return 3;
	info.version.min = atoi(argv[2]);
	info.version.cur = atoi(argv[3]);
	info.target_name = argv[4];
	info.system_emulation = !strcmp(argv[5], "system");
	info.system.smp_vcpus = 2;
	info.system.max_vcpus = 3;
	printf("version %d\n", *version);
	printf("install %d\n", install(42, &info, argc - 6, argv + 6));
	return 0;
}
