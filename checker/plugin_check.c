// SPDX-License-Identifier: GPL-2.0-only
/*
 * plugin_check - mode=check: the glue between QEMU and shadow.h.
 *
 * The plugin watches all stores of the kernel (any may change a table), the kernel's
 * accesses to user memory, all accesses and blocks of user code, TLBIs, DSBs, the
 * registers that choose a translation, and the functions that free pages or rely on
 * flushes. It does not watch loads of kernel memory: kernel mappings count as used by
 * all CPUs.
 *
 * Nearly all accesses end in filter.h. Those that pass it are rare, so one lock for all of
 * them is enough.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "decode.h"
#include "filter.h"
#include "linux.h"
#include "once.h"
#include "plugin.h"
#include "shadow.h"
#include "stage2.h"
#include "sync_point.h"
#include "unload.h"

#define RAM_BASE 0x40000000ull	/* of QEMU's "virt" */
#define PSCI_CPU_OFF 0x84000002u	/* Arm DEN 0022: the function that does not return */

/* A translated instruction, as its callbacks need it. */
struct site {
	struct hash_node node;
	uint64_t pc;
	uint32_t word;
	int hook;			/* enum linux_hook, or -1 */
	struct insn insn;
};

static struct shadow shadow;
static struct stage2 machines;		/* its virtual machines */
static struct linux_guest guest;
static struct filter *filters;
static struct hash sites;

/* shadow.moved: with the lock held, for any vCPU. */
static void on_moved(void *arg, cpumask cpus, const struct scope *r)
{
	unsigned int cpu;

	(void)arg;
	for_cpus(cpu, cpus) {
		const struct context *c = shadow.cpus[cpu].context;

		filter_forget(&filters[cpu], c ? c->asid : -1, r);
	}
}

/* shadow.stack */
static unsigned int on_stack(void *arg, unsigned int cpu, uint64_t pc)
{
	struct stack stack;

	(void)arg;
	linux_stack(&guest, cpu, pc, read_x(cpu, 29), read_x(cpu, 30), &stack);
	return stack_intern(&shadow.reports, &stack);
}

/* --- Accesses --- */

/* There is memory behind the piece that find_ram() has found: say so once. */
static void on_more_ram(uint64_t pa)
{
	static bool told;
	char text[256];

	pthread_mutex_lock(&lock);
	if (!told) {
		snprintf(text, sizeof(text),
			 "the guest uses memory at 0x%" PRIx64 ", behind the %" PRIu64 " MiB of RAM that are one piece: "
			 "page tables there are not seen; start QEMU with one memory backend",
			 pa, shadow.spaces.ram.size >> 20);
		report_error(&shadow.reports, text);
	}
	told = true;
	pthread_mutex_unlock(&lock);
}

/* Returns the physical address of an access, or NO_PA for device memory. */
static uint64_t where(qemu_plugin_meminfo_t info, uint64_t va)
{
	const struct qemu_plugin_hwaddr *h = qemu_plugin_get_hwaddr(info, va);
	uint64_t pa = !h || qemu_plugin_hwaddr_is_io(h) ? NO_PA : qemu_plugin_hwaddr_phys_addr(h);

	if (pa != NO_PA && pa >= RAM_BASE && !ram_has(&shadow.spaces.ram, pa, 1))
		on_more_ram(pa);
	return pa;
}

static void user_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t va, uint64_t pc)
{
	struct filter *f = &filters[cpu];
	bool store = qemu_plugin_mem_is_store(info);
	enum use use = store ? USE_STORE : USE_DATA;
	uint64_t pa;

	f->accesses++;
	if (filter_has(f, use, va))
		return;
	pa = where(info, va);
	pthread_mutex_lock(&lock);
	if (pa != NO_PA)
		shadow_access(&shadow, cpu, va, pa, false, pc);
	if (store)
		shadow_wrote(&shadow, cpu, va);
	filter_add(f, use, va);
	pthread_mutex_unlock(&lock);
}

/* To @pa, perhaps a table of either stage. */
static void stored(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t pa, uint64_t pc)
{
	if (!page_is_followed(&shadow.spaces, pa))
		return;
	pthread_mutex_lock(&lock);
	shadow_store(&shadow, cpu, pa, 1u << qemu_plugin_mem_size_shift(info), pc);
	if (machines.on)
		shadow_store(&machines.s, cpu, pa, 1u << qemu_plugin_mem_size_shift(info), pc);
	pthread_mutex_unlock(&lock);
}

static void kernel_store(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t va, uint64_t pc)
{
	struct filter *f = &filters[cpu];
	uint64_t pa, tag;

	if (!filter_kernel(f, va, &tag, &pa)) {
		pa = where(info, va);
		pa = pa == NO_PA ? NO_PA : pa & ~0xfffull;
		filter_add_kernel(f, tag, pa);
	}
	if (pa == NO_PA)
		return;
	stored(cpu, info, pa | (va & 0xfff), pc);
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t va, void *pc)
{
	/* Bit 55 selects the half, whatever is in the tag above it. */
	if (!(va >> 55 & 1))
		user_access(cpu, info, va, (uintptr_t)pc);
	else if (qemu_plugin_mem_is_store(info))
		kernel_store(cpu, info, va, (uintptr_t)pc);
}

/*
 * QEMU translates a block once for all addresses at which its page is mapped. So @guess,
 * the address it was translated for, may not be the one that executes. If the filter has
 * @guess nothing is to do; otherwise the vCPU's PC tells the address.
 */
static void on_user_block(unsigned int cpu, void *guess)
{
	struct filter *f = &filters[cpu];
	uint64_t va = (uintptr_t)guess;

	f->accesses++;
	if (filter_has(f, USE_FETCH, va))
		return;
	va = read_pc(cpu);
	if (filter_has(f, USE_FETCH, va))
		return;
	pthread_mutex_lock(&lock);
	shadow_access(&shadow, cpu, va, NO_PA, true, va);
	filter_add(f, USE_FETCH, va);
	pthread_mutex_unlock(&lock);
}

/* --- Instructions --- */

static void on_tlbi(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	uint64_t operand = tlbi_has_operand(&site->insn.tlbi) ? read_x(cpu, site->insn.rt) : 0;

	pthread_mutex_lock(&lock);
	shadow_tlbi(&shadow, cpu, &site->insn.tlbi, operand, site->pc);
	pthread_mutex_unlock(&lock);
}

static void on_dsb(unsigned int cpu, void *userdata)
{
	enum dsb_form form = (uintptr_t)userdata;

	filters[cpu].dsbs++;
	if (shadow_dsb_quick(&shadow, cpu, form))
		return;
	pthread_mutex_lock(&lock);
	shadow_dsb(&shadow, cpu, form);
	pthread_mutex_unlock(&lock);
}

/* Every system call and interrupt passes here twice, so take the lock only if something can be due. */
static void on_sp_el0(unsigned int cpu, uint64_t value, uint64_t pc)
{
	if (!(value >> 63))
		write_once(&guest.fixed, true);
	if (shadow_sp_el0(&shadow, cpu, value))
		return;
	pthread_mutex_lock(&lock);
	shadow_user(&shadow, cpu, pc);
	pthread_mutex_unlock(&lock);
}

/* The kernel's addresses differ from those of its symbols by the slide. */
static void on_vbar(uint64_t value)
{
	if (read_once(&guest.fixed))
		return;
	pthread_mutex_lock(&lock);
	if (linux_vectors(&guest, value))
		report_guest(out, "slide", guest.symbols.slide);
	pthread_mutex_unlock(&lock);
}

static void on_msr(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	uint64_t value = read_x(cpu, site->insn.rt);

	if (site->insn.reg == REG_SP_EL0) {
		on_sp_el0(cpu, value, site->pc);
		return;
	}
	if (site->insn.reg == REG_VBAR) {
		on_vbar(value);
		return;
	}
	pthread_mutex_lock(&lock);
	if (site->insn.reg == REG_SCTLR && value & 1 && !shadow.spaces.ram.host)
		refuse("the guest turned translation on before it ran from its RAM at 0x40000000: "
		       "not a kernel started with -kernel on -machine virt?");
	shadow_msr(&shadow, cpu, site->insn.reg, value, site->pc);
	pthread_mutex_unlock(&lock);
}

/*
 * A CPU that goes offline does not write SCTLR_EL1. It comes back out of reset, and runs
 * with translation off until it writes SCTLR_EL1. Its TLB may have kept entries; the
 * kernel must invalidate them.
 */
static void on_call(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;

	if ((uint32_t)read_x(cpu, 0) != PSCI_CPU_OFF)
		return;
	pthread_mutex_lock(&lock);
	shadow_msr(&shadow, cpu, REG_SCTLR, 0, site->pc);
	pthread_mutex_unlock(&lock);
}

static void on_mark(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	uint64_t x0 = read_x(cpu, 0), pa;
	unsigned int more;

	pthread_mutex_lock(&lock);
	switch (site->insn.mark) {
	case MARK_FREE:
		more = linux_page_shift(&guest, cpu) - 12;
		linux_free(&guest, cpu, x0 << more, read_x(cpu, 1) + more, site->pc);
		break;
	case MARK_DEAD:
		shadow_dead(&shadow, cpu, x0, site->pc);
		break;
	case MARK_KERNEL_PTE:
		if (linux_translate(&guest, cpu, x0, &pa))
			shadow_store(&shadow, cpu, pa, 8, site->pc);
		break;
	case MARK_COLLECTED:
		shadow_collected(&shadow, cpu, x0, read_x(cpu, 1));
		break;
	case MARK_LOADED:
		shadow_published(&shadow, cpu, x0, read_x(cpu, 1), site->pc);
		break;
	case MARK_PROGRAM:
		if (shadow.reports.cover)
			__atomic_store_n(&shadow.reports.cover->ended, x0, __ATOMIC_RELEASE);
		break;
	}
	pthread_mutex_unlock(&lock);
}

static void on_window(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	uint64_t id = read_x(cpu, 0);

	pthread_mutex_lock(&lock);
	if (site->insn.kind == INSN_OPEN)
		shadow_open(&shadow, cpu, id);
	else
		shadow_close(&shadow, cpu, id);
	check_output();
	pthread_mutex_unlock(&lock);
}

/* Stores the same byte again and again: the host only clears it. */
static void on_kernel_block(unsigned int cpu, void *byte)
{
	(void)cpu;
	__atomic_store_n((uint8_t *)byte, 1, __ATOMIC_RELAXED);
}

static void on_sync(unsigned int cpu, void *unused)
{
	(void)unused;
	shadow_sync(&shadow, cpu);
}

static void on_schedule(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;

	if (linux_idle(&guest, cpu, HOOK_SCHEDULE))
		return;
	pthread_mutex_lock(&lock);
	shadow_sleeps(&shadow, cpu, site->pc);
	pthread_mutex_unlock(&lock);
}

static void on_hook(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	uint64_t x[5];

	if (linux_idle(&guest, cpu, site->hook))
		return;
	for (unsigned int i = 0; i < 5; i++)
		x[i] = read_x(cpu, i);
	pthread_mutex_lock(&lock);
	linux_enter(&guest, cpu, site->hook, x, site->pc);
	pthread_mutex_unlock(&lock);
}

/* --- With EL2: the same callbacks, without what guests execute --- */

static void host_on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t va, void *pc)
{
	if (!stage2_in_guest(&machines, cpu))
		on_access(cpu, info, va, pc);
}

#define OF_HOST(name) \
static void host_##name(unsigned int cpu, void *userdata) \
{ \
	if (!stage2_in_guest(&machines, cpu)) \
		name(cpu, userdata); \
}

OF_HOST(on_user_block)
OF_HOST(on_kernel_block)
OF_HOST(on_call)
OF_HOST(on_mark)
OF_HOST(on_window)
OF_HOST(on_sync)
OF_HOST(on_schedule)
OF_HOST(on_hook)

static void host_on_tlbi(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	const struct tlbi *t = &site->insn.tlbi;
	struct issuer_state state = read_issuer(cpu);

	if (!issuer_in_guest(&state) && issuer_of(&state, t).kind != ISSUER_HYPERVISOR) {
		on_tlbi(cpu, userdata);
		return;
	}
	pthread_mutex_lock(&lock);
	if (issuer_in_guest(&state))
		stage2_guest_tlbi(&machines, cpu, t);
	else
		shadow_tlbi(&machines.s, cpu, t, tlbi_has_operand(t) ? read_x(cpu, site->insn.rt) : 0, site->pc);
	pthread_mutex_unlock(&lock);
}

/* A DSB of a guest completes no TLBI that the host relies on. */
static void host_on_dsb(unsigned int cpu, void *userdata)
{
	enum dsb_form form = (uintptr_t)userdata;

	if (stage2_in_guest(&machines, cpu))
		return;
	on_dsb(cpu, userdata);
	if (shadow_dsb_quick(&machines.s, cpu, form))
		return;
	pthread_mutex_lock(&lock);
	shadow_dsb(&machines.s, cpu, form);
	pthread_mutex_unlock(&lock);
}

static void host_on_msr(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;
	uint64_t value = read_x(cpu, site->insn.rt);
	const char *why;

	if (site->insn.reg < REG_HCR) {
		if (stage2_in_guest(&machines, cpu))
			return;
		on_msr(cpu, userdata);
		if (site->insn.reg != REG_SP_EL0 || stage2_sp_el0(&machines, cpu, value))
			return;
	}
	pthread_mutex_lock(&lock);
	if (site->insn.reg == REG_SP_EL0) {
		shadow_settles(&machines.s, cpu, site->pc);
	} else {
		/* The kernel moves to EL2, whose translation is still off. */
		if (site->insn.reg == REG_HCR && stage2_to_el2(&machines, cpu, value))
			shadow_msr(&shadow, cpu, REG_SCTLR, 0, site->pc);
		why = stage2_msr(&machines, cpu, site->insn.reg, value, site->pc);
		if (why)
			refuse(why);
	}
	pthread_mutex_unlock(&lock);
}

/* --- At EL2 without a kernel there: issuer_is_bare() --- */

static void bare_on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t va, void *pc)
{
	if (qemu_plugin_mem_is_store(info))
		stored(cpu, info, where(info, va), (uintptr_t)pc);
}

static void bare_on_msr(unsigned int cpu, void *userdata)
{
	const struct site *site = userdata;

	if (site->insn.reg >= REG_HCR)
		host_on_msr(cpu, userdata);
}

/* What on_translate() registers. */
struct callbacks {
	qemu_plugin_vcpu_udata_cb_t user_block, kernel_block, schedule, hook, tlbi, dsb, sync, msr, call, mark, window;
	qemu_plugin_vcpu_mem_cb_t access;
};

static const struct callbacks without_el2 = {
	.user_block = on_user_block, .kernel_block = on_kernel_block, .schedule = on_schedule, .hook = on_hook,
	.tlbi = on_tlbi, .dsb = on_dsb, .sync = on_sync, .msr = on_msr, .call = on_call, .mark = on_mark,
	.window = on_window, .access = on_access,
};

static const struct callbacks with_el2 = {
	.user_block = host_on_user_block, .kernel_block = host_on_kernel_block, .schedule = host_on_schedule,
	.hook = host_on_hook, .tlbi = host_on_tlbi, .dsb = host_on_dsb, .sync = host_on_sync, .msr = host_on_msr,
	.call = host_on_call, .mark = host_on_mark, .window = host_on_window, .access = host_on_access,
};

static const struct callbacks bare = {
	.kernel_block = host_on_kernel_block, .schedule = host_on_schedule, .hook = host_on_hook,
	.tlbi = host_on_tlbi, .dsb = host_on_dsb, .sync = host_on_sync, .msr = bare_on_msr,
	.call = host_on_call, .mark = host_on_mark, .window = host_on_window, .access = bare_on_access,
};

/* QEMU translates code for each exception level and value of HCR_EL2.E2H by itself. */
static const struct callbacks *callbacks_here(void)
{
	struct issuer_state state;

	if (!machines.on)
		return &without_el2;
	state = read_issuer(this_vcpu);
	return issuer_is_bare(&state) ? &bare : &with_el2;
}

/* --- Translation --- */

/* Returns the site of an instruction. Sites are never freed, because QEMU may run a block at any time. */
static struct site *site_of(uint64_t pc, uint32_t word, const struct insn *insn, int hook)
{
	uint64_t key = hash_mix(pc, word);
	struct site *site = NULL;

	pthread_mutex_lock(&lock);
	for (struct hash_node *n = hash_first(&sites, key); n && !site; n = hash_next(n)) {
		site = container_of(n, struct site, node);
		if (site->pc != pc || site->word != word || site->hook != hook)
			site = NULL;
	}
	if (!site) {
		site = calloc(1, sizeof(*site));
		if (!site)
			abort();
		site->pc = pc;
		site->word = word;
		site->hook = hook;
		site->insn = *insn;
		hash_add(&sites, &site->node, key);
	}
	pthread_mutex_unlock(&lock);
	return site;
}

/*
 * The number of bytes from @host on that are mapped writable in one piece. Neighbouring
 * mappings may be shown as one, or one as several. QEMU has a page without permissions
 * behind RAM, so RAM ends where this piece does.
 */
static uint64_t mapped_from(uintptr_t host)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t start, end, reached = host;
	char line[512], access[5];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &start, &end, access) == 3 &&
		    start <= reached && end > reached && !strncmp(access, "rw", 2))
			reached = end;
	if (maps)
		fclose(maps);
	return reached - host;
}

/*
 * Find where in this process the guest's RAM is mapped, and its size, from the first
 * instruction that the guest executes in RAM. Translation is still off then, so that its
 * virtual address is its physical address.
 */
static void find_ram(const struct qemu_plugin_insn *handle)
{
	uint64_t pa = qemu_plugin_insn_vaddr(handle);
	unsigned char *host = qemu_plugin_insn_haddr(handle);
	struct ram ram = { .base = RAM_BASE };

	if (!host || pa < RAM_BASE)
		return;
	ram.host = host - (pa - RAM_BASE);
	ram.size = mapped_from((uintptr_t)ram.host);
	if (ram.size <= pa - RAM_BASE)
		refuse("the guest's RAM is not found in /proc/self/maps as one piece of memory");
	if (!shadow_ram(&shadow, &ram))
		refuse("no memory for a map of the guest's pages");
	if (machines.on && !stage2_ram(&machines, &shadow))
		refuse("no memory for a map of the guest's pages");
	report_guest(out, "ram", ram.size);
}

/* A hypervisor has the kernel's code at addresses of its own. Returns that of the kernel's symbols, if it is known. */
static uint64_t name_in_image(const struct qemu_plugin_insn *handle, uint64_t pc)
{
	const unsigned char *host = qemu_plugin_insn_haddr(handle);
	uint64_t vectors = guest.vectors + read_once(&guest.symbols.slide), pa;

	if (!host || !guest.vectors || !linux_translate(&guest, this_vcpu, vectors, &pa))
		return pc;
	return vectors + (host - shadow.spaces.ram.host) + shadow.spaces.ram.base - pa;
}

static void on_translate(EVENT(struct qemu_plugin_tb *tb))
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	const struct callbacks *on = callbacks_here();
	bool user = false;

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *handle = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(handle);
		/* From version 5 on QEMU gives registers only to callbacks that ask for them. */
		enum qemu_plugin_cb_flags regs = api < 5 ? QEMU_PLUGIN_CB_NO_REGS :
						 QEMU_PLUGIN_CB_R_REGS;
		uint32_t word = 0;
		struct insn insn;
		int hook;

		qemu_plugin_insn_data(handle, &word, sizeof(word));
		if (!read_once(&shadow.spaces.ram.host)) {
			pthread_mutex_lock(&lock);
			if (!shadow.spaces.ram.host)
				find_ram(handle);
			pthread_mutex_unlock(&lock);
		}
		insn = decode(word);
		user = !(pc >> 63);
		if (on == &bare)
			pc = name_in_image(handle, pc);
		if (i == 0 && user && on->user_block)
			qemu_plugin_register_vcpu_tb_exec_cb(tb, on->user_block, regs,
							     (void *)(uintptr_t)pc);
		if (i == 0 && !user && shadow.reports.cover)
			qemu_plugin_register_vcpu_tb_exec_cb(tb, on->kernel_block, QEMU_PLUGIN_CB_NO_REGS,
				cover_block(shadow.reports.cover, pc - guest.symbols.slide));
		hook = linux_hook_at(&guest, pc);
		if (hook >= 0)
			qemu_plugin_register_vcpu_insn_exec_cb(handle,
				hook == HOOK_SCHEDULE ? on->schedule : on->hook,
				QEMU_PLUGIN_CB_R_REGS, site_of(pc, word, &insn, hook));
		switch (insn.kind) {
		case INSN_TLBI:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->tlbi,
				QEMU_PLUGIN_CB_R_REGS, site_of(pc, word, &insn, -1));
			break;
		case INSN_DSB:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->dsb,
				QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)insn.dsb);
			break;
		case INSN_SYNC:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->sync,
				QEMU_PLUGIN_CB_NO_REGS, NULL);
			break;
		case INSN_MSR:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->msr,
				QEMU_PLUGIN_CB_R_REGS, site_of(pc, word, &insn, -1));
			break;
		case INSN_CALL:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->call,
				QEMU_PLUGIN_CB_R_REGS, site_of(pc, word, &insn, -1));
			break;
		case INSN_MARK:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->mark,
				QEMU_PLUGIN_CB_R_REGS, site_of(pc, word, &insn, -1));
			break;
		case INSN_OPEN:
		case INSN_CLOSE:
			qemu_plugin_register_vcpu_insn_exec_cb(handle, on->window,
				QEMU_PLUGIN_CB_R_REGS, site_of(pc, word, &insn, -1));
			break;
		default:
			qemu_plugin_register_vcpu_mem_cb(handle, on->access, regs,
				user || is_unprivileged(word) ? QEMU_PLUGIN_MEM_RW :
				QEMU_PLUGIN_MEM_W, (void *)(uintptr_t)pc);
			break;
		}
	}
}

static bool install(char *error, size_t size)
{
	if (ncpus > MAX_CPUS) {
		snprintf(error, size, "mode=check follows at most %d vCPUs, this guest may have %u",
			 MAX_CPUS, ncpus);
		return false;
	}
	filters = aligned_alloc(128, ncpus * sizeof(*filters));
	if (!filters || !shadow_init(&shadow, ncpus, options.speculation, out, stderr)) {
		snprintf(error, size, "no memory for %u vCPUs", ncpus);
		return false;
	}
	for (unsigned int cpu = 0; cpu < ncpus; cpu++)
		filter_init(&filters[cpu]);
	shadow.moved = on_moved;
	shadow.stack = on_stack;
	if (!linux_init(&guest, &shadow, options.symbols, error, size))
		return false;
	if (options.cover) {
		shadow.reports.cover = cover_open(options.cover, error, size);
		if (!shadow.reports.cover)
			return false;
	}
	report_header(out, api, ncpus, options.speculation);
	linux_report(&guest, out);
	return true;
}

/* Return true if the vCPU is taken to have FEAT_nTLBPA: no walk caches by physical address (walks.h). */
static bool has_ntlbpa(unsigned int cpu)
{
	const struct vcpu *v = &vcpus[cpu];

	if (options.ntlbpa != NTLBPA_CPU)
		return options.ntlbpa == NTLBPA_YES;
	return v->mmfr1 && read_register(cpu, v->mmfr1) >> 48 & 15;
}

/* A vCPU exists: read which features it has. Without FEAT_TTL, TTL bits of operands are ignored. */
static void on_vcpu(unsigned int cpu)
{
	const struct vcpu *v = &vcpus[cpu];

	if (v->hcr && !machines.on) {
		if (!stage2_init(&machines, &shadow))
			refuse("no memory for virtual machines");
		guest.stage2 = &machines.s;
	}
	if (!has_ntlbpa(cpu))
		shadow.physical |= CPU(cpu);
	shadow.cpus[cpu].no_ttl = v->mmfr2 && !(read_register(cpu, v->mmfr2) >> 48 & 15);
	if (machines.on)
		machines.s.cpus[cpu].no_ttl = shadow.cpus[cpu].no_ttl;
}

static void finish(void)
{
	for (unsigned int cpu = 0; cpu < ncpus; cpu++) {
		shadow.seen.accesses += filters[cpu].accesses;
		shadow.seen.dsbs += filters[cpu].dsbs;
	}
	if (guest.refused) {
		char text[96];

		snprintf(text, sizeof(text), "%" PRIu64 " pages could not be identified by their struct page",
			 guest.refused);
		report_error(&shadow.reports, text);
	}
	linux_report_text(&guest, stderr);
	if (machines.on)
		stage2_seen(&machines, &shadow.seen);
	shadow_verdict(&shadow);
}

const struct mode check_mode = {
	.vcpu = on_vcpu, .install = install, .translate = on_translate, .finish = finish,
};
