// SPDX-License-Identifier: GPL-2.0-only
/*
 * trace-cli - the rules of shadow.h on a trace in lines, without QEMU.
 *
 *	trace-cli [TEXT]
 *
 * Reads a script from standard input, an event a line or several with `;`
 * between them, and writes the lines of check mode, and to the file TEXT what
 * it says for people. traces/ has such scripts, traces/README.md their language. The "pc" of an event is the number of its
 * line. A bad script ends it with 2.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "linux.h"
#include "shadow.h"
#include "stage2.h"
#include "sync_point.h"
#include "unload.h"

#define RAM_BASE	0x40000000ull
#define RAM_SIZE	(16ull << 20)
#define BLOCK		(2ull << 20)
#define PAGE		0x1000ull
#define WORDS		64
#define NAMES		256

#define PTE_ATTR(n)	((uint64_t)(n) << 2)
#define PTE_AP1		(1ull << 6)
#define PTE_AP2		(1ull << 7)
#define PTE_SH		(3ull << 8)
#define PTE_AF		(1ull << 10)
#define PTE_NG		(1ull << 11)
#define PTE_DBM		(1ull << 51)
#define PTE_CONT	(1ull << 52)
#define PTE_PXN		(1ull << 53)
#define PTE_UXN		(1ull << 54)
/* Of stage 2; AP1 allows reads there, AP2 writes */
#define S2_NORMAL	PTE_ATTR(15)

/* As Linux has them: a page of user space, and of the kernel. */
#define USER	(3 | PTE_AP1 | PTE_SH | PTE_AF | PTE_NG | PTE_PXN | PTE_UXN)
#define KERNEL	(3 | PTE_SH | PTE_AF | PTE_PXN | PTE_UXN)

struct name {
	char text[32];
	uint64_t value;
};

static const struct name flags[] = {
	{ "table", 3 },
	{ "rw", USER | PTE_DBM },
	{ "ro", USER | PTE_AP2 },
	{ "rx", (USER | PTE_AP2) & ~PTE_UXN },
	{ "krx", (KERNEL | PTE_AP2) & ~PTE_PXN },
	{ "krw", KERNEL | PTE_DBM },
	{ "kro", KERNEL | PTE_AP2 },
	{ "clean", PTE_AP2 },		/* beside DBM: hardware may make it writable */
	{ "af", PTE_AF },
	{ "ng", PTE_NG },
	{ "cont", PTE_CONT },
	{ "nc", PTE_ATTR(2) },
	{ "block", 2 },			/* to be subtracted from a page's */
	{ "grw", 3 | S2_NORMAL | PTE_AP1 | PTE_AP2 | PTE_SH | PTE_AF | PTE_UXN },	/* a guest's */
	{ "gro", 3 | S2_NORMAL | PTE_AP1 | PTE_SH | PTE_AF | PTE_UXN },
	{ "grx", 3 | S2_NORMAL | PTE_AP1 | PTE_SH | PTE_AF },
};

static struct {
	struct shadow s;
	struct ram ram;
	bool started;
	unsigned int ncpus;
	bool speculation, ntlbpa;
	struct name names[NAMES];
	unsigned int n_names;
	uint64_t next_page, last_block;
	struct regime lower, upper, stage2;
	struct stage2 machines;
	cpumask hosts;
	bool nvhe;
	struct linux_guest linux_guest;
	bool is_linux;
	struct filter *filters;
	bool no_filter;
	bool of_guest;			/* a root at hand is of stage 2, and addresses are IPAs */
} m;

static unsigned int line;
static FILE *people;

static void __attribute__((noreturn, format(printf, 1, 2))) bad(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "line %u: ", line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

/* --- The machine --- */

static uint64_t *word_at(uint64_t pa)
{
	if (pa & 7 || !ram_has(&m.ram, pa, 8))
		bad("0x%" PRIx64 " is no word of memory", pa);
	return (uint64_t *)(m.ram.host + (pa - m.ram.base));
}

static void set_name(const char *text, uint64_t value)
{
	unsigned int i = 0;

	while (i < m.n_names && strcmp(m.names[i].text, text))
		i++;
	if (i == NAMES || strlen(text) >= sizeof(m.names[i].text))
		bad("too many names, or too long: %s", text);
	strcpy(m.names[i].text, text);
	m.names[i].value = value;
	m.n_names += i == m.n_names;
}

/* A page, or a table of @size bytes. */
static uint64_t new_page(uint64_t size)
{
	uint64_t pa = (m.next_page + size - 1) & ~(size - 1);

	if (pa + size > m.last_block)
		bad("no memory left");
	m.next_page = pa + size;
	return pa;
}

static void on_moved(void *arg, cpumask cpus, const struct scope *r)
{
	unsigned int cpu;

	(void)arg;
	for_cpus(cpu, cpus) {
		const struct context *c = m.s.cpus[cpu].context;

		filter_forget(&m.filters[cpu], c ? c->asid : -1, r);
	}
}

static void begin(void)
{
	m.ram.host = calloc(1, m.ram.size);
	if (!m.ram.host || !shadow_init(&m.s, m.ncpus, m.speculation, stdout, people) ||
	    !shadow_ram(&m.s, &m.ram))
		bad("no memory for %u CPUs", m.ncpus);
	m.s.physical = m.ntlbpa ? 0 : ~0ull;
	m.s.moved = on_moved;
	m.filters = aligned_alloc(128, m.ncpus * sizeof(*m.filters));
	if (!m.filters)
		bad("no memory for %u CPUs", m.ncpus);
	for (unsigned int cpu = 0; cpu < m.ncpus; cpu++)
		filter_init(&m.filters[cpu]);
	m.next_page = m.ram.base;
	m.last_block = m.ram.base + m.ram.size;
	set_name("reserved", new_page(PAGE));
	set_name("swapper", new_page(PAGE));
	report_header(stdout, 4, m.ncpus, m.speculation);
	m.started = true;
}

static void ready(void)
{
	memset(&m, 0, sizeof(m));
	m.ncpus = 2;
	m.speculation = true;
	m.ntlbpa = true;
	m.ram.base = RAM_BASE;
	m.ram.size = RAM_SIZE;
}

static void end(void)
{
	if (!m.started)
		begin();
	m.s.seen.accesses = m.s.seen.misses;
	if (m.machines.on) {
		stage2_seen(&m.machines, &m.s.seen);
		stage2_free(&m.machines);
	}
	shadow_verdict(&m.s);
	shadow_free_all(&m.s);
	free(m.ram.host);
	free(m.filters);
	ready();
}

/* --- Values --- */

static uint64_t value_at(const char **at);

static const struct regime *regime_for(uint64_t va)
{
	const struct regime *r = m.of_guest ? &m.stage2 : va >> 63 ? &m.upper : &m.lower;

	if (!r->granule || !regime_has(r, va))
		bad("no address: 0x%" PRIx64 " (is a CPU on?)", va);
	return r;
}

/* Where the descriptor of an address is; NO_PA: a table above it is missing. */
static uint64_t slot_of(uint64_t root, uint64_t va, int level)
{
	const struct regime *r = regime_for(va);
	uint64_t table = root;

	for (int l = r->start; l <= 3; l++) {
		uint64_t index = va >> level_shift(r, l) & (table_entries(r, l) - 1);
		uint64_t slot = table + 8 * index, desc = *word_at(slot);

		if (l == level)
			return slot;
		if (desc_kind(r, l, desc) != DESC_TABLE)
			return NO_PA;
		table = desc_output(r, l, desc);
	}
	bad("no such level: %d", level);
}

/* slot(ROOT,VA[,LEVEL]), table(ROOT,VA[,LEVEL]); gslot() and gtable(): of stage 2 */
static uint64_t function(const char *name, const char **at)
{
	uint64_t arg[3] = { 0, 0, 3 }, slot;
	unsigned int n = 0;

	do {
		(*at)++;
		if (n == 3)
			bad("too many arguments: %s", name);
		arg[n++] = value_at(at);
	} while (**at == ',');
	if (n < 2 || *(*at)++ != ')')
		bad("%s(ROOT,VA[,LEVEL])", name);
	m.of_guest = *name == 'g';
	slot = slot_of(arg[0], arg[1], (int)arg[2]);
	if (slot == NO_PA)
		bad("no table there");
	if (!strcmp(name + m.of_guest, "table"))
		slot &= ~((1ull << regime_for(arg[1])->granule) - 1);
	else if (strcmp(name + m.of_guest, "slot"))
		bad("no such function: %s", name);
	m.of_guest = false;
	return slot;
}

static uint64_t name_value(const char *text)
{
	for (unsigned int i = 0; i < m.n_names; i++)
		if (!strcmp(m.names[i].text, text))
			return m.names[i].value;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(flags[i].text, text))	/* with LPA2 the bits of SH are address */
			return flags[i].value & ~(m.lower.lpa2 ? PTE_SH : 0);
	bad("no such name: %s", text);
}

static uint64_t term_at(const char **at)
{
	size_t n = strcspn(*at, "|+-<(),");
	uint64_t value;
	char text[32];
	char *rest;

	if (!n || n >= sizeof(text))
		bad("a value is missing: %s", *at);
	memcpy(text, *at, n);
	text[n] = 0;
	*at += n;
	if (**at == '(')
		value = function(text, at);
	else if (text[0] >= '0' && text[0] <= '9')
		value = strtoull(text, &rest, 0);
	else
		value = name_value(text), rest = "";
	if (**at != '(' && text[0] >= '0' && text[0] <= '9' && *rest)
		bad("no number: %s", text);
	if (!strncmp(*at, "<<", 2)) {
		*at += 2;
		value <<= term_at(at) & 63;
	}
	return value;
}

/* Terms with | + - between them, from left to right. */
static uint64_t value_at(const char **at)
{
	uint64_t value = term_at(at);

	while (**at && strchr("|+-", **at)) {
		char operator = *(*at)++;
		uint64_t other = term_at(at);

		value = operator == '|' ? value | other : operator == '+' ? value + other : value - other;
	}
	return value;
}

static uint64_t value_of(const char *word)
{
	uint64_t value = value_at(&word);

	if (*word)
		bad("what is this: %s", word);
	return value;
}

static unsigned int cpu_of(const char *word)
{
	uint64_t cpu = value_of(word);

	if (cpu >= m.ncpus)
		bad("no such CPU: %s", word);
	return cpu;
}

static void msr(unsigned int cpu, enum sysreg reg, uint64_t value)
{
	shadow_msr(&m.s, cpu, reg, value, line);
}

static void store(unsigned int cpu, uint64_t pa, uint64_t value)
{
	*word_at(pa) = value;
	shadow_store(&m.s, cpu, pa, 8, line);
	if (m.machines.on)
		shadow_store(&m.machines.s, cpu, pa, 8, line);
}

/* --- The commands; w[0] is its name, n counts it --- */

static void do_cpus(char **w, int n)
{
	(void)n;
	if (m.started)
		bad("too late");
	m.ncpus = value_of(w[1]);
	if (!m.ncpus || m.ncpus > MAX_CPUS)
		bad("1 to %d CPUs", MAX_CPUS);
}

static void do_speculation(char **w, int n)
{
	(void)n;
	if (m.started)
		bad("too late");
	if (strcmp(w[1], "on") && strcmp(w[1], "off"))
		bad("speculation on, or off");
	m.speculation = !strcmp(w[1], "on");
}

static void do_ntlbpa(char **w, int n)
{
	(void)n;
	if (m.started)
		bad("too late");
	if (strcmp(w[1], "0") && strcmp(w[1], "1"))
		bad("ntlbpa 0, or 1");
	m.ntlbpa = !strcmp(w[1], "1");
}

static void do_filter(char **w, int n)
{
	(void)n;
	if (strcmp(w[1], "on") && strcmp(w[1], "off"))
		bad("filter on, or off");
	m.no_filter = !strcmp(w[1], "off");
}

static void do_ram(char **w, int n)
{
	(void)n;
	if (m.started)
		bad("too late");
	m.ram.size = value_of(w[1]);
	if (m.ram.size & (PAGE - 1) || m.ram.size < 2 * PAGE || m.ram.size > 64 * RAM_SIZE)
		bad("a size of memory: %s", w[1]);
}

static void do_page(char **w, int n)
{
	for (int i = 1; i < n; i++)
		set_name(w[i], new_page(PAGE));
}

static void do_huge(char **w, int n)
{
	for (int i = 1; i < n; i++) {
		m.last_block = (m.last_block - BLOCK) & ~(BLOCK - 1);
		if (m.last_block < m.next_page)
			bad("no memory left");
		set_name(w[i], m.last_block);
	}
}

static void do_let(char **w, int n)
{
	(void)n;
	set_name(w[1], value_of(w[2]));
}

static void do_poke(char **w, int n)
{
	(void)n;
	*word_at(value_of(w[1])) = value_of(w[2]);
}

static void do_on(char **w, int n)
{
	static const struct {
		const char *name;
		unsigned int tg0, tg1, size;
		bool ds;
	} sizes[] = {
		{ "4k48", 0, 2, 16, false }, { "4k39", 0, 2, 25, false }, { "lpa2", 0, 2, 12, true },
		{ "16k48", 2, 1, 16, false }, { "16k47", 2, 1, 17, false },
		{ "16k36", 2, 1, 28, false }, { "16k52", 2, 1, 12, true },
		{ "64k48", 1, 3, 16, false }, { "64k42", 1, 3, 22, false }, { "64k52", 1, 3, 12, false },
	};
	unsigned int cpu = cpu_of(w[1]), i = 0;
	uint64_t tcr = 1ull << 22 | 5ull << 32 | 1ull << 36;	/* A1, 48 bits of output, AS */

	for (int at = 2; at < n; at++) {
		if (!strcmp(w[at], "asid8")) {
			tcr &= ~(1ull << 36);
			continue;
		}
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && strcmp(sizes[i].name, w[at]); i++)
			;
		if (i == sizeof(sizes) / sizeof(sizes[0]))
			bad("no such machine: %s", w[at]);
	}
	tcr |= sizes[i].size | sizes[i].size << 16 | (uint64_t)sizes[i].tg0 << 14 |
	       (uint64_t)sizes[i].tg1 << 30 | (uint64_t)sizes[i].ds << 59;
	regime_of(tcr, false, &m.lower);
	regime_of(tcr, true, &m.upper);
	msr(cpu, REG_TCR, tcr);
	msr(cpu, REG_TTBR0, name_value("reserved"));
	msr(cpu, REG_TTBR1, name_value("swapper"));
	msr(cpu, REG_SCTLR, 1);
}

static void do_msr(char **w, int n)
{
	static const struct {
		const char *name;
		enum sysreg reg;
	} regs[] = {
		{ "ttbr0", REG_TTBR0 }, { "ttbr1", REG_TTBR1 }, { "tcr", REG_TCR }, { "sctlr", REG_SCTLR },
		{ "mair", REG_MAIR },
	};

	(void)n;
	for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		if (!strcmp(w[2], regs[i].name)) {
			msr(cpu_of(w[1]), regs[i].reg, value_of(w[3]));
			return;
		}
	}
	bad("no such register: %s", w[2]);
}

/* cpu_do_switch_mm() */
static void do_load(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);
	uint64_t root = value_of(w[2]);

	(void)n;
	msr(cpu, REG_TTBR0, name_value("reserved"));
	msr(cpu, REG_TTBR1, name_value("swapper") | value_of(w[3]) << 48);
	msr(cpu, REG_TTBR0, root);
}

static void do_task(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);

	(void)n;
	msr(cpu, REG_SP_EL0, 1ull << 63 | value_of(w[2]));
	if (m.machines.on)
		stage2_sp_el0(&m.machines, cpu, 1ull << 63 | value_of(w[2]));
}

static void do_user(char **w, int n)
{
	(void)n;
	msr(cpu_of(w[1]), REG_SP_EL0, 0xffff0000);
	if (m.machines.on && !stage2_sp_el0(&m.machines, cpu_of(w[1]), 0xffff0000))
		shadow_settles(&m.machines.s, cpu_of(w[1]), line);
}

/* store CPU PA VALUE [VA]: by the kernel's address VA, of which the filter may know where it is. */
static void do_store(char **w, int n)
{
	uint64_t pa = value_of(w[2]), value = value_of(w[3]), tag, page;
	unsigned int cpu = cpu_of(w[1]);

	if (n < 5) {
		store(cpu, pa, value);
		return;
	}
	*word_at(pa) = value;
	if (!filter_kernel(&m.filters[cpu], value_of(w[4]), &tag, &page)) {
		page = pa & ~(PAGE - 1);
		filter_add_kernel(&m.filters[cpu], tag, page);
	}
	shadow_store(&m.s, cpu, page | (pa & (PAGE - 1)), 8, line);
}

/* map CPU ROOT VA PA FLAGS [LEVEL]: tables as they are needed, then the leaf. */
static void do_map(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);
	uint64_t root = value_of(w[2]), va = value_of(w[3]);
	uint64_t desc = value_of(w[4]) | value_of(w[5]);
	int level = n > 6 ? (int)value_of(w[6]) : 3;

	m.of_guest = *w[0] == 'g';
	if (level < 3)
		desc &= ~2ull;
	for (int l = regime_for(va)->start; l < level; l++) {
		uint64_t slot = slot_of(root, va, l);

		if (slot == NO_PA || (*word_at(slot) & 3) == 1)
			bad("a block is in the way");
		if (!(*word_at(slot) & 1))
			store(cpu, slot, new_page(1ull << regime_for(va)->granule) | 3);
	}
	store(cpu, slot_of(root, va, level), desc);
	m.of_guest = false;
}

/* unmap CPU ROOT VA [LEVEL] */
static void do_unmap(char **w, int n)
{
	uint64_t root = value_of(w[2]), va = value_of(w[3]), slot;

	m.of_guest = *w[0] == 'g';
	slot = slot_of(root, va, n > 4 ? (int)value_of(w[4]) : 3);
	m.of_guest = false;
	if (slot == NO_PA)
		bad("no table there");
	store(cpu_of(w[1]), slot, 0);
}

/*
 * The operand's value in words, by what the form is about:
 *	ASID | ASID VA | VA; in ranges VA PAGES; each then [ttl=LEVEL]
 * or raw=OPERAND.
 */
static uint64_t operand_of(const struct tlbi *t, char **w, int n)
{
	unsigned int tg = (m.lower.granule - 10) / 2, scale;
	uint64_t operand = 0, va, pages, level = 0;
	int at = 0;

	if (n && !strncmp(w[n - 1], "raw=", 4))
		return value_of(w[n - 1] + 4);
	if (n && !strncmp(w[n - 1], "ttl=", 4))
		level = value_of(w[--n] + 4);
	if (n != (t->what == TLBI_ALL ? 0 : (t->what != TLBI_VAA) + (t->what != TLBI_ASID) + t->range))
		bad("not what %s needs", t->name);
	if (t->what == TLBI_ASID || t->what == TLBI_VA)
		operand = value_of(w[at++]) << 48;
	if (at == n)
		return operand;
	va = value_of(w[at++]);
	if (!t->range)
		return operand | (level ? (uint64_t)(tg << 2 | level) << 44 : 0) | (va >> 12 & ((1ull << 44) - 1));
	pages = value_of(w[at]);
	va >>= m.lower.lpa2 ? 16 : m.lower.granule;
	for (scale = 0; scale < 4; scale++) {
		unsigned int shift = 5 * scale + 1;

		if (pages && !(pages & ((1ull << shift) - 1)) && pages >> shift <= 32)
			return operand | (uint64_t)tg << 46 | (uint64_t)scale << 44 |
			       (uint64_t)((pages >> shift) - 1) << 39 | level << 37 |
			       (va & ((1ull << 37) - 1));
	}
	bad("no range of %" PRIu64 " pages", pages);
}

static struct tlbi tlbi_of(const char *name)
{
	struct tlbi t;

	for (unsigned int i = 0; i < TLBI_FORMS; i++)
		if (tlbi_form(i, &t) && !strcmp(t.name, name))
			return t;
	bad("no such TLBI: %s", name);
}

static void do_tlbi(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);
	struct tlbi t = tlbi_of(w[2]);

	shadow_tlbi(&m.s, cpu, &t, operand_of(&t, w + 3, n - 3), line);
}

/* --- Virtual machines --- */

static void el2(unsigned int cpu, enum sysreg reg, uint64_t value)
{
	const char *why = stage2_msr(&m.machines, cpu, reg, value, line);

	if (why)
		bad("%s", why);
}

/* host CPU [nvhe]: the host has it, at EL2, or at EL1. The first one of a trace makes the machine one with EL2. */
static void do_host(char **w, int n)
{
	const uint64_t vtcr = 25 | 1 << 6 | 2 << 16 | 1 << 19;	/* 4 KiB, IPAs of 39 bits, VMIDs of 16 */

	m.nvhe = m.nvhe || n > 2;
	if (!m.machines.on) {
		if (!stage2_init(&m.machines, &m.s) || !stage2_ram(&m.machines, &m.s))
			bad("no memory");
		regime_of_stage2(vtcr, &m.stage2);
		for (unsigned int cpu = 0; cpu < m.ncpus; cpu++)
			el2(cpu, REG_VTCR, vtcr);
	}
	el2(cpu_of(w[1]), REG_HCR, m.nvhe ? 0 : HCR_E2H | HCR_TGE);
	if (m.nvhe)
		el2(cpu_of(w[1]), REG_VTTBR, 0);
	m.hosts |= CPU(cpu_of(w[1]));
}

static void need_host(unsigned int cpu)
{
	if (!(m.hosts & CPU(cpu)))
		bad("CPU %u has no host", cpu);
}

/* guest CPU ROOT VMID [VCPU [nofb]] */
static void do_guest(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);

	need_host(cpu);
	el2(cpu, REG_VMPIDR, n > 4 ? value_of(w[4]) : 0);
	el2(cpu, REG_VTTBR, value_of(w[3]) << 48 | value_of(w[2]));
	el2(cpu, REG_HCR, (m.nvhe ? 0 : HCR_E2H) | HCR_VM | (n > 5 ? 0 : HCR_FB));
}

/* vtlbi CPU VMID NAME [IPA [PAGES]] [ttl=LEVEL]: by the host, for a guest */
static void do_vtlbi(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);
	struct tlbi t = tlbi_of(w[3]);
	struct tlbi ipa = t;

	need_host(cpu);
	if (stage2_in_guest(&m.machines, cpu))
		bad("CPU %u has a guest", cpu);
	if (t.what == TLBI_IPA)
		ipa.what = TLBI_VAA;	/* has the same words */
	el2(cpu, REG_VTTBR, value_of(w[2]) << 48);
	shadow_tlbi(&m.machines.s, cpu, &t, operand_of(&ipa, w + 4, n - 4), line);
}

/* gtlbi CPU NAME: by the guest */
static void do_gtlbi(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);
	struct tlbi t = tlbi_of(w[2]);

	(void)n;
	need_host(cpu);
	if (!stage2_in_guest(&m.machines, cpu))
		bad("CPU %u has no guest", cpu);
	stage2_guest_tlbi(&m.machines, cpu, &t);
}

static void do_dsb(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);

	(void)n;
	for (enum dsb_form form = 0; form < DSB_FORMS; form++) {
		if (!strcmp(dsb_name(form), w[2])) {
			m.s.seen.dsbs++;
			shadow_dsb(&m.s, cpu, form);
			if (m.machines.on)
				shadow_dsb(&m.machines.s, cpu, form);
			return;
		}
	}
	bad("no such DSB: %s", w[2]);
}

static void do_isb(char **w, int n)
{
	(void)n;
	shadow_sync(&m.s, cpu_of(w[1]));
}

static void do_published(char **w, int n)
{
	(void)n;
	shadow_published(&m.s, cpu_of(w[1]), value_of(w[2]), !strcmp(w[0], "loaded"), line);
}

static void do_sleep(char **w, int n)
{
	(void)n;
	shadow_sleeps(&m.s, cpu_of(w[1]), line);
}

/* As plugin_check.c has it: the CPU's filter ends an access that it knows. */
static bool known(unsigned int cpu, enum use use, uint64_t va)
{
	if (!m.no_filter && filter_has(&m.filters[cpu], use, va))
		return true;
	filter_add(&m.filters[cpu], use, va);
	return false;
}

static void do_access(char **w, int n)
{
	uint64_t pa = n > 3 && strcmp(w[3], "-") ? value_of(w[3]) : NO_PA, va = value_of(w[2]);
	bool fetch = !strcmp(w[0], "fetch");
	unsigned int cpu = cpu_of(w[1]);

	if (known(cpu, fetch ? USE_FETCH : USE_DATA, va))
		return;
	shadow_access(&m.s, cpu, va, pa, fetch, line);
}

static void do_free(char **w, int n)
{
	uint64_t pa = value_of(w[2]), order = n > 3 ? value_of(w[3]) : 0;

	if (order > 18 || !ram_has(&m.ram, pa, PAGE << order))
		bad("no pages: 0x%" PRIx64, pa);
	shadow_free(&m.s, cpu_of(w[1]), pa >> 12, order, line);
	if (m.machines.on)
		shadow_free(&m.machines.s, cpu_of(w[1]), pa >> 12, order, line);
}

static void do_sync(char **w, int n)
{
	uint64_t pa = value_of(w[2]), order = n > 3 ? value_of(w[3]) : 0;
	enum sync_what how = !strcmp(w[0], "sync-own") ? SYNC_OWN :
			  !strcmp(w[0], "sync-unlock") ? SYNC_UNLOCK :
			  !strcmp(w[0], "sync-copy") ? SYNC_COPY : SYNC_ALL;

	if (order > 18 || !ram_has(&m.ram, pa, PAGE << order))
		bad("no pages: 0x%" PRIx64, pa);
	shadow_written(&m.s, cpu_of(w[1]), pa >> 12, 1ull << order, how, line);
	if (m.machines.on)
		shadow_written(&m.machines.s, cpu_of(w[1]), pa >> 12, 1ull << order, how, line);
}

/* What hardware does where DBM is set, and the news of a store. */
static void do_wrote(char **w, int n)
{
	unsigned int cpu = cpu_of(w[1]);
	const struct context *c = m.s.cpus[cpu].context;
	uint64_t va = value_of(w[2]);
	struct walk walked;

	(void)n;
	if (c && c->root && regime_has(&m.lower, va)) {
		walk(&m.lower, c->root->pa, va, ram_read, &m.ram, &walked);
		if (walked.valid && walked.step[walked.steps - 1].desc & PTE_DBM)
			*word_at(walked.step[walked.steps - 1].desc_pa) &= ~PTE_AP2;
	}
	if (!known(cpu, USE_STORE, va))
		shadow_wrote(&m.s, cpu, va);
}

/* lazy START END */
static void do_lazy(char **w, int n)
{
	(void)n;
	m.s.lazy_start = value_of(w[1]);
	m.s.lazy_end = value_of(w[2]);
}

/* returned CPU START END */
static void do_returned(char **w, int n)
{
	(void)n;
	shadow_returned(&m.s, cpu_of(w[1]), value_of(w[2]), value_of(w[3]), line);
}

static void do_dead(char **w, int n)
{
	(void)n;
	shadow_dead(&m.s, cpu_of(w[1]), value_of(w[2]), line);
}

/* range CPU ROOT START END */
static void do_range(char **w, int n)
{
	(void)n;
	shadow_range(&m.s, cpu_of(w[1]), value_of(w[2]), value_of(w[3]), value_of(w[4]), line);
}

static void do_collected(char **w, int n)
{
	(void)n;
	shadow_collected(&m.s, cpu_of(w[1]), value_of(w[2]), value_of(w[3]));
}

static void do_unlock(char **w, int n)
{
	(void)n;
	shadow_unlock(&m.s, cpu_of(w[1]), line);
}

static void do_rmaps(char **w, int n)
{
	(void)n;
	shadow_rmaps(&m.s, cpu_of(w[1]), line);
}

static void do_window(char **w, int n)
{
	(void)n;
	(!strcmp(w[0], "open") ? shadow_open : shadow_close)(&m.s, cpu_of(w[1]), value_of(w[2]));
}

/* enter CPU FUNCTION [ARGUMENT...]: of Linux. memblock_free_pages() tells where its struct pages are. */
static void do_enter(char **w, int n)
{
	static const char * const names[] = {
		[HOOK_FREE_PAGES] = "free_frozen_pages", [HOOK_FREE_LIST] = "free_unref_page_list",
		[HOOK_FREE_FOLIOS] = "free_unref_folios", [HOOK_FREE_HUGE_PAGE] = "free_huge_page",
		[HOOK_BOOT_FREE] = "memblock_free_pages",
		[HOOK_BOOT_PAGE] = "__free_pages_core",
		[HOOK_UNMAP] = "unmap_page_range", [HOOK_PROTECT] = "change_protection",
		[HOOK_MOVE] = "move_page_tables", [HOOK_RMAPS] = "tlb_flush_rmaps",
		[HOOK_UNLOCK] = "_raw_spin_unlock", [HOOK_PURGE] = "purge_vmap_node",
		[HOOK_MEMCMP_PAGES] = "memcmp_pages", [HOOK_SCHEDULE] = "schedule",
		[HOOK_NOTIFIED] = "__mmu_notifier_invalidate_range_end",
	};
	unsigned int cpu = cpu_of(w[1]);
	uint64_t x[5] = { 0 };
	char error[128];

	if (!m.is_linux) {
		if (!linux_init(&m.linux_guest, &m.s, NULL, error, sizeof(error)))
			bad("%s", error);
		m.linux_guest.stage2 = m.machines.on ? &m.machines.s : NULL;
		m.is_linux = true;
	}
	for (int i = 3; i < n; i++)
		x[i - 3] = value_of(w[i]);
	for (size_t hook = 0; hook < sizeof(names) / sizeof(names[0]); hook++) {
		if (names[hook] && !strcmp(names[hook], w[2])) {
			m.linux_guest.old_folios |= hook == HOOK_FREE_HUGE_PAGE;
			if (!linux_idle(&m.linux_guest, cpu, hook))
				linux_enter(&m.linux_guest, cpu, hook, x, line);
			return;
		}
	}
	bad("no such function: %s", w[2]);
}

/* forgotten CPU VA: after accesses and a TLBI, the CPU's filter has no use of the page any more; else report trace/known */
static void do_forgotten(char **w, int n)
{
	(void)n;
	for (enum use use = 0; use < USES; use++)
		if (filter_has(&m.filters[cpu_of(w[1])], use, value_of(w[2])))
			puts("{\"report\":0,\"rule\":\"trace\",\"kind\":\"known\"}");
}

static void do_reset(char **w, int n)
{
	(void)w;
	(void)n;
	end();
	fflush(stdout);
	line = 0;
}

static const struct command {
	const char *name;
	void (*run)(char **w, int n);
	int least, most;		/* words after it */
	bool early;			/* before there is a machine */
} commands[] = {
	{ "cpus", do_cpus, 1, 1, true },
	{ "speculation", do_speculation, 1, 1, true },
	{ "ntlbpa", do_ntlbpa, 1, 1, true },
	{ "filter", do_filter, 1, 1, true },
	{ "ram", do_ram, 1, 1, true },
	{ "reset", do_reset, 0, 0, true },
	{ "page", do_page, 1, WORDS, false },
	{ "huge", do_huge, 1, WORDS, false },
	{ "let", do_let, 2, 2, false },
	{ "poke", do_poke, 2, 2, false },
	{ "on", do_on, 1, 3, false },
	{ "msr", do_msr, 3, 3, false },
	{ "load", do_load, 3, 3, false },
	{ "task", do_task, 2, 2, false },
	{ "user", do_user, 1, 1, false },
	{ "isb", do_isb, 1, 1, false },
	{ "loaded", do_published, 2, 2, false },
	{ "unloaded", do_published, 2, 2, false },
	{ "sleep", do_sleep, 1, 1, false },
	{ "store", do_store, 3, 4, false },
	{ "map", do_map, 5, 6, false },
	{ "unmap", do_unmap, 3, 4, false },
	{ "tlbi", do_tlbi, 2, 6, false },
	{ "host", do_host, 1, 2, false },
	{ "guest", do_guest, 3, 5, false },
	{ "gmap", do_map, 5, 6, false },
	{ "gunmap", do_unmap, 3, 4, false },
	{ "vtlbi", do_vtlbi, 3, 6, false },
	{ "gtlbi", do_gtlbi, 2, 2, false },
	{ "dsb", do_dsb, 2, 2, false },
	{ "access", do_access, 2, 3, false },
	{ "fetch", do_access, 2, 2, false },
	{ "free", do_free, 2, 3, false },
	{ "dead", do_dead, 2, 2, false },
	{ "lazy", do_lazy, 2, 2, false },
	{ "returned", do_returned, 3, 3, false },
	{ "sync", do_sync, 2, 3, false },
	{ "sync-own", do_sync, 2, 3, false },
	{ "sync-unlock", do_sync, 2, 3, false },
	{ "sync-copy", do_sync, 2, 3, false },
	{ "wrote", do_wrote, 2, 2, false },
	{ "range", do_range, 4, 4, false },
	{ "collected", do_collected, 3, 3, false },
	{ "unlock", do_unlock, 1, 1, false },
	{ "forgotten", do_forgotten, 2, 2, false },
	{ "rmaps", do_rmaps, 1, 1, false },
	{ "enter", do_enter, 2, 7, false },
	{ "open", do_window, 2, 2, false },
	{ "close", do_window, 2, 2, false },
};

static const struct command *command_of(char **w, int n)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct command *c = &commands[i];

		if (strcmp(c->name, w[0]))
			continue;
		if (n - 1 < c->least || n - 1 > c->most)
			bad("%s: too few words, or too many", w[0]);
		return c;
	}
	bad("no such command: %s", w[0]);
}

/* Is a trace open after it? */
static bool run(char *text, bool open)
{
	const struct command *c;
	char *w[WORDS + 1], *save;
	int n = 0;

	for (char *word = strtok_r(text, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (n == WORDS)
			bad("too many words");
		w[n++] = word;
	}
	if (!n)
		return open;
	c = command_of(w, n);
	if (!c->early && !m.started)
		begin();
	c->run(w, n);
	return c->run != do_reset;
}

int main(int argc, char **argv)
{
	char text[1024];
	bool open = true;

	people = fopen(argc > 1 ? argv[1] : "/dev/null", "w");
	if (!people) {
		perror(argv[1]);
		return 2;
	}
	ready();
	while (fgets(text, sizeof(text), stdin)) {
		char *each;

		line++;
		if (strlen(text) == sizeof(text) - 1)
			bad("too long");
		text[strcspn(text, "#\n")] = 0;
		for (char *one = strtok_r(text, ";", &each); one; one = strtok_r(NULL, ";", &each))
			open = run(one, open);
	}
	if (open)
		end();
	fclose(people);
	return 0;
}
