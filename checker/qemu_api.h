/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * qemu_api - the part of QEMU's TCG plugin interface that the plugin uses.
 *
 * QEMU's own header is qemu-plugin.h; Debian does not package it, and it needs
 * GLib's headers. These declarations are for versions 4 to 7 of the interface,
 * of which version 5 only adds functions:
 *
 *	4  QEMU 9.2, 10.0	6  QEMU 11.0
 *	5  QEMU 10.1, 10.2	7  QEMU 11.1
 *
 * No binary can serve all four. QEMU refuses a plugin whose qemu_plugin_version
 * is outside of QEMU's range [version.min, version.cur]. The minimum is 2 before
 * version 7, which raises it to 7. So the plugin is built twice: with API_VERSION
 * 4 for versions 4 to 6, and with 7 for version 7.
 *
 * The range is no promise either: version 6 changed a return type, and kept the
 * minimum. So the plugin itself has an upper limit, API_LAST.
 *
 * All symbols are weak. An older QEMU lacks some of them, and can then still load
 * the plugin, which says that it needs another version.
 */
#ifndef LULL_QEMU_API_H
#define LULL_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version that this build of the plugin exports. */
#ifndef API_VERSION
#define API_VERSION	4
#endif

/*
 * The arguments of the callbacks of an event (a vCPU starts, a block is translated, QEMU
 * exits): versions 4 to 6 pass the plugin's id first, version 7 passes user data last. The
 * plugin uses neither. A callback's arguments are EVENT(its own argument), and NO_DATA()
 * registers it.
 */
#if API_VERSION < 7
#define API_LAST	6	/* the last version known to be compatible */
#define API_QEMU	"9.2 to 11.0"
#define WITH_ID(args)	__attribute__((unused)) qemu_plugin_id_t id, args
#define WITH_DATA(args)	args
#define NO_DATA(callback) callback
#else
#define API_LAST	7
#define API_QEMU	"11.1"
#define WITH_ID(args)	args
#define WITH_DATA(args)	args, __attribute__((unused)) void *userdata
#define NO_DATA(callback) callback, NULL
#endif
#define EVENT(arg)	WITH_ID(WITH_DATA(arg))

#define QEMU_EXPORT	__attribute__((visibility("default")))
#define QEMU_IMPORT	extern __attribute__((weak))

typedef uint64_t qemu_plugin_id_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_register;

typedef struct qemu_info_t {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

/* A uint64_t at an offset in each vCPU's entry of a scoreboard. */
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;

enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS,
	QEMU_PLUGIN_CB_R_REGS,
	QEMU_PLUGIN_CB_RW_REGS,
};

enum qemu_plugin_op {
	QEMU_PLUGIN_INLINE_ADD_U64,
	QEMU_PLUGIN_INLINE_STORE_U64,
};

enum qemu_plugin_cond {
	QEMU_PLUGIN_COND_NEVER,
	QEMU_PLUGIN_COND_ALWAYS,
	QEMU_PLUGIN_COND_EQ,
	QEMU_PLUGIN_COND_NE,
	QEMU_PLUGIN_COND_LT,
	QEMU_PLUGIN_COND_LE,
	QEMU_PLUGIN_COND_GT,
	QEMU_PLUGIN_COND_GE,
};

/* The first fields; newer QEMUs have more, so the size is the array's own. */
typedef struct {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
} qemu_plugin_reg_descriptor;

/* The public layout of the two GLib arrays in which QEMU returns registers. */
typedef struct {
	char *data;
	unsigned int len;
} GArray;

typedef struct {
	uint8_t *data;
	unsigned int len;
} GByteArray;

/* GLib functions: QEMU has GLib loaded. */
QEMU_IMPORT unsigned int g_array_get_element_size(GArray *array);
QEMU_IMPORT char *g_array_free(GArray *array, int free_segment);
QEMU_IMPORT GByteArray *g_byte_array_new(void);
QEMU_IMPORT GByteArray *g_byte_array_set_size(GByteArray *array,
					      unsigned int length);

/* A memory access: its kind and size, packed; and its physical address. */
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_hwaddr;

enum qemu_plugin_mem_rw {
	QEMU_PLUGIN_MEM_R = 1,
	QEMU_PLUGIN_MEM_W,
	QEMU_PLUGIN_MEM_RW,
};

typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu_index,
					  qemu_plugin_meminfo_t info,
					  uint64_t vaddr, void *userdata);
typedef void (*qemu_plugin_udata_cb_t)(WITH_ID(void *userdata));
typedef void (*qemu_plugin_vcpu_simple_cb_t)(EVENT(unsigned int vcpu_index));
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu_index,
					    void *userdata);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(EVENT(struct qemu_plugin_tb *tb));

/* The symbols that QEMU looks up in a plugin. */
extern QEMU_EXPORT int qemu_plugin_version;
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
				    const qemu_info_t *info,
				    int argc, char **argv);

QEMU_IMPORT void
qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id,
				  WITH_DATA(qemu_plugin_vcpu_simple_cb_t cb));
/* A vCPU halts, and goes on. Called in the vCPU's own thread. */
QEMU_IMPORT void
qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t id,
				  WITH_DATA(qemu_plugin_vcpu_simple_cb_t cb));
QEMU_IMPORT void
qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t id,
				    WITH_DATA(qemu_plugin_vcpu_simple_cb_t cb));
QEMU_IMPORT void
qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
				      WITH_DATA(qemu_plugin_vcpu_tb_trans_cb_t cb));
QEMU_IMPORT void
qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t cb,
			       void *userdata);

QEMU_IMPORT size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
QEMU_IMPORT struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
QEMU_IMPORT size_t
qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *dest,
		      size_t len);

QEMU_IMPORT void
qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
				       qemu_plugin_vcpu_udata_cb_t cb,
				       enum qemu_plugin_cb_flags flags,
				       void *userdata);
QEMU_IMPORT void
qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
	struct qemu_plugin_insn *insn, enum qemu_plugin_op op,
	qemu_plugin_u64 entry, uint64_t imm);
QEMU_IMPORT void
qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
	struct qemu_plugin_tb *tb, enum qemu_plugin_op op,
	qemu_plugin_u64 entry, uint64_t imm);

QEMU_IMPORT void
qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
				     qemu_plugin_vcpu_udata_cb_t cb,
				     enum qemu_plugin_cb_flags flags,
				     void *userdata);
QEMU_IMPORT void
qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb,
					  qemu_plugin_vcpu_udata_cb_t cb,
					  enum qemu_plugin_cb_flags flags,
					  enum qemu_plugin_cond cond,
					  qemu_plugin_u64 entry,
					  uint64_t imm, void *userdata);
QEMU_IMPORT void
qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				 qemu_plugin_vcpu_mem_cb_t cb,
				 enum qemu_plugin_cb_flags flags,
				 enum qemu_plugin_mem_rw rw, void *userdata);
QEMU_IMPORT uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
QEMU_IMPORT void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);
QEMU_IMPORT unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
QEMU_IMPORT bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);

/* Call only in a memory callback. Returns NULL if QEMU has dropped the translation since. */
QEMU_IMPORT struct qemu_plugin_hwaddr *
qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
QEMU_IMPORT bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
QEMU_IMPORT uint64_t
qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);

QEMU_IMPORT int qemu_plugin_num_vcpus(void);
QEMU_IMPORT GArray *qemu_plugin_get_registers(void);
/*
 * Appends the register to @buf, or nothing if it fails. What it returns (not declared here)
 * is the size or -1 up to version 5, and a bool from version 6.
 */
QEMU_IMPORT void qemu_plugin_read_register(struct qemu_plugin_register *handle,
					   GByteArray *buf);

QEMU_IMPORT struct qemu_plugin_scoreboard *
qemu_plugin_scoreboard_new(size_t element_size);
/* A vCPU's entry; valid until another vCPU is created. */
QEMU_IMPORT void *
qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score,
			    unsigned int vcpu_index);
QEMU_IMPORT uint64_t qemu_plugin_u64_get(qemu_plugin_u64 entry,
					 unsigned int vcpu_index);
QEMU_IMPORT void qemu_plugin_u64_set(qemu_plugin_u64 entry,
				     unsigned int vcpu_index, uint64_t value);

#endif
