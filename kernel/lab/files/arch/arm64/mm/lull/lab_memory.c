// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lab kernel: memory that is plugged and unplugged when a program asks.
 *
 * The lab's machine has no memory to plug, and arm64 refuses to offline the
 * memory that it was booted with. With the boot parameter lull_plug=SIZE the
 * last SIZE bytes of memory are not used at boot. /sys/kernel/mm/lull/lab_memory
 * plugs that memory (in) and takes it away again (out), with its struct pages.
 * If the kernel cannot take it away, it stays: /proc/iomem says what is there.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>

#include "lull.h"

enum { OUT, IN };

static const char * const policies[] = { [OUT] = "out", [IN] = "in", NULL };

static phys_addr_t start __ro_after_init;
static phys_addr_t size __ro_after_init;

/* Whole memory blocks. The kernel, the initrd and the FDT are at the start. */
static int __init plug_boot(char *value)
{
	phys_addr_t block = memory_block_size_bytes();
	phys_addr_t end = round_down(memblock_end_of_DRAM(), block);
	phys_addr_t wanted = round_down(value ? memparse(value, NULL) : 0, block);

	if (!wanted || wanted > memblock_phys_mem_size() / 2) {
		pr_err("lull_plug=%s: at least %pa, at most half of the memory\n",
		       value ?: "", &block);
		return -EINVAL;
	}
	start = end - wanted;
	size = wanted;
	return memblock_remove(start, PHYS_ADDR_MAX - start);
}
early_param("lull_plug", plug_boot);

static void apply(int policy)
{
	int err = policy == IN ? add_memory(0, start, size, MHP_NONE) :
				 offline_and_remove_memory(start, size);

	if (err)
		pr_info("lab_memory: %s: error %d\n", policies[policy], err);
}

static struct lull_switch memory_switch =
	LULL_SWITCH(lab_memory, policies, OUT, apply);

static int __init memory_init(void)
{
	if (!size)
		return 0;
	memory_switch.policy = IN;
	return lull_switch_register(&memory_switch);
}
late_initcall_sync(memory_init);
