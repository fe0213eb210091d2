// SPDX-License-Identifier: GPL-2.0-only
/*
 * linux - where Linux frees pages and relies on flushes, and its stacks. See linux.h.
 */
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "linux.h"
#include "once.h"
#include "sync_point.h"

#define PG_HEAD		(1ull << 6)	/* "Must be in bit 6", linux/page-flags.h */
#define OLD_HEAD	(1ull << 16)	/* until 6.5 */
#define MOST_ORDER	18		/* 1 GiB in pages of 4 KiB */
#define BATCH		31		/* PAGEVEC_SIZE; 15 until 6.9 */
#define LIST		65536		/* pages in a list, far more than Linux has */
#define LRU		8		/* of lru in struct page */
#define OLD_ORDER	17		/* of _folio_order behind the first struct page, until 6.5 */
#define VM_MM		16		/* of vm_mm in struct vm_area_struct, behind vm_start and vm_end */
#define VM_FLAGS	32		/* behind vm_mm and vm_page_prot */
#define VM_MAYSHARE	0x80
#define VM_HUGETLB	0x400000
#define MM_HEAD		512		/* of struct mm_struct: its pgd and page_table_lock are in it */
#define PURGE_LIST	16		/* of purge_list before purge_work, in struct vmap_node */
#define VA_LIST		40		/* of list in struct vmap_area, behind va_start, va_end and an rb_node */
#define MIN_BITS	48		/* VA_BITS_MIN is this at most: arm64's addresses of vmalloc begin half-way */
#define FREES		"free"		/* a rule without which the check is inconclusive */

/* The functions; several names of one hook are of different versions, or all of them are needed. */
static const struct {
	const char *name;
	enum linux_hook hook;
} symbols[] = {
	{ "free_unref_page", HOOK_FREE_PAGES },		/* until 6.13 */
	{ "free_frozen_pages", HOOK_FREE_PAGES },	/* since 6.14 */
	{ "__free_frozen_pages", HOOK_FREE_PAGES },
	{ "__free_pages_ok", HOOK_FREE_PAGES },
	{ "free_unref_page_list", HOOK_FREE_LIST },	/* until 6.8 */
	{ "free_unref_folios", HOOK_FREE_FOLIOS },
	{ "free_huge_folio", HOOK_FREE_HUGE_FOLIO },
	{ "free_huge_page", HOOK_FREE_HUGE_PAGE },	/* until 6.5 */
	{ "pgd_free", HOOK_PGD_FREE },
	{ "memblock_free_pages", HOOK_BOOT_FREE },
	{ "__free_pages_core", HOOK_BOOT_PAGE },
	{ "unmap_page_range", HOOK_UNMAP },
	{ "__zap_vma_range", HOOK_UNMAP },		/* since 7.1 */
	{ "change_protection", HOOK_PROTECT },
	{ "move_page_tables", HOOK_MOVE },
	{ "tlb_flush_rmaps", HOOK_RMAPS },
	{ "_raw_spin_unlock", HOOK_UNLOCK },
	{ "rt_spin_unlock", HOOK_UNLOCK },		/* CONFIG_PREEMPT_RT */
	{ "purge_vmap_node", HOOK_PURGE },		/* since 6.9 */
	{ "schedule", HOOK_SCHEDULE },
	{ "__mmu_notifier_invalidate_range_end", HOOK_NOTIFIED },
	{ "__folio_start_writeback", HOOK_START_WRITEBACK },
	{ "swap_writepage", HOOK_SWAP_WRITEPAGE },	/* until 6.15 */
	{ "swap_writeout", HOOK_SWAP_WRITEPAGE },
	{ "folio_copy", HOOK_FOLIO_COPY },
	{ "folio_mc_copy", HOOK_FOLIO_COPY },
	{ "copy_highpage", HOOK_COPY_HIGHPAGE },
	{ "folio_unlock", HOOK_FOLIO_UNLOCK },
	{ "memcmp_pages", HOOK_MEMCMP_PAGES },
};

#define N_SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))
_Static_assert(N_SYMBOLS <= LINUX_SYMBOLS, "an address for each symbol");

/* What is not judged if a kernel has none of a hook's functions. The others have no rule of their own. */
static const struct {
	enum linux_hook hook;
	const char *rule;
} unchecked[] = {
	{ HOOK_FREE_PAGES, FREES },
	{ HOOK_BOOT_FREE, FREES },
	{ HOOK_BOOT_PAGE, FREES },
	{ HOOK_UNMAP, "pending/unsettled" },
	{ HOOK_PROTECT, "pending/unsettled" },
	{ HOOK_MOVE, "pending/unsettled" },
	{ HOOK_RMAPS, "pending/rmap" },
	{ HOOK_UNLOCK, "pending/unlocked" },
	{ HOOK_PURGE, "pending of vmalloc" },
	{ HOOK_SCHEDULE, "pending of kernel threads" },
	{ HOOK_START_WRITEBACK, "written" },
	{ HOOK_SWAP_WRITEPAGE, "written" },
	{ HOOK_FOLIO_COPY, "written" },
	{ HOOK_COPY_HIGHPAGE, "written" },
	{ HOOK_RMAPS, "written" },
	{ HOOK_FOLIO_UNLOCK, "written" },
};

bool linux_init(struct linux_guest *l, struct shadow *s, const char *path,
		char *error, size_t size)
{
	bool rt;

	memset(l, 0, sizeof(*l));
	l->shadow = s;
	if (!path)
		return true;
	if (!symbols_read(&l->symbols, path, error, size))
		return false;
	l->vectors = symbols_find(&l->symbols, "vectors");
	/*
	 * With CONFIG_PREEMPT_RT, the locks of tables are dropped by rt_spin_unlock(), and a
	 * task that has one can be preempted. Then the scheduler drops a raw lock that is in
	 * the mm_struct, too (cid_lock).
	 */
	rt = symbols_find(&l->symbols, "rt_spin_unlock");
	for (size_t i = 0; i < N_SYMBOLS; i++)
		if (!rt || strcmp(symbols[i].name, "_raw_spin_unlock"))
			l->address[i] = symbols_find(&l->symbols, symbols[i].name);
	l->old_folios = symbols_find(&l->symbols, "free_huge_page");
	s->reports.names = &l->symbols;
	return true;
}

/* Returns the first symbol of a hook if the kernel has none of its symbols, otherwise NULL. */
static const char *missing(const struct linux_guest *l, enum linux_hook hook)
{
	const char *first = NULL;

	for (size_t i = 0; i < N_SYMBOLS; i++) {
		if (symbols[i].hook != hook)
			continue;
		if (l->address[i])
			return NULL;
		first = first ?: symbols[i].name;
	}
	return first;
}

void linux_report(const struct linux_guest *l, FILE *out)
{
	struct json j = { .out = out };

	json_open(&j, '{');
	json_key(&j, "unchecked");
	json_open(&j, '[');
	for (size_t n = 0; n < sizeof(unchecked) / sizeof(unchecked[0]); n++) {
		const char *symbol = missing(l, unchecked[n].hook);

		if (!symbol)
			continue;
		json_open(&j, '{');
		json_key(&j, "rule");
		json_string(&j, unchecked[n].rule);
		json_key(&j, "symbol");
		json_string(&j, symbol);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	json_end_line(&j);
}

void linux_report_text(const struct linux_guest *l, FILE *out)
{
	const char *before = "not checked, for lack of a symbol: ", *after = "";

	for (size_t n = 0; n < sizeof(unchecked) / sizeof(unchecked[0]); n++) {
		const char *symbol = missing(l, unchecked[n].hook);

		if (!symbol)
			continue;
		fprintf(out, "%s%s (no %s)", before, unchecked[n].rule, symbol);
		before = ", ";
		after = "\n";
	}
	fputs(after, out);
}

/*
 * KASLR moves the kernel by a multiple of 64 KiB at least. Until 6.2 the kernel sets
 * VBAR_EL1 once where it was linked to, and again where it moved itself. Under KPTI, CPUs
 * in user space have other vectors, so that no value is looked at after the first of them.
 */
bool linux_vectors(struct linux_guest *l, uint64_t vbar)
{
	uint64_t slide = vbar - l->vectors;

	if (read_once(&l->fixed) || !l->vectors || !(vbar >> 63) || slide & 0xffff || slide == l->symbols.slide)
		return false;
	write_once(&l->symbols.slide, slide);
	return true;
}

int linux_hook_at(const struct linux_guest *l, uint64_t va)
{
	for (size_t i = 0; i < N_SYMBOLS; i++)
		if (l->address[i] && l->address[i] + read_once(&l->symbols.slide) == va)
			return symbols[i].hook;
	return -1;
}

bool linux_idle(const struct linux_guest *l, unsigned int cpu, enum linux_hook hook)
{
	const struct shadow *s = l->shadow;

	if (hook == HOOK_SCHEDULE)
		return !read_once(&s->pendings.open_kernel) && !read_once(&s->contigs.n);
	if (hook == HOOK_UNLOCK)
		return !s->cpus[cpu].section;
	if (hook == HOOK_NOTIFIED)
		return !l->stage2 || !read_once(&l->stage2->pendings.open);
	/* What is copied is looked for in the tables of stage 2. */
	if ((hook == HOOK_FOLIO_COPY || hook == HOOK_COPY_HIGHPAGE) && l->stage2 && read_once(&l->stage2->seen.loads))
		return false;
	/* seen.cleaned must not stay 0. */
	return hook >= HOOK_START_WRITEBACK && !read_once(&s->pendings.n) && read_once(&s->seen.cleaned) &&
	       !(l->stage2 && read_once(&l->stage2->pendings.n));
}

bool linux_translate(const struct linux_guest *l, unsigned int cpu, uint64_t va,
		     uint64_t *pa)
{
	struct shadow *s = l->shadow;
	const struct cpu *c = &s->cpus[cpu];
	struct walk w;

	if (!c->mmu || !c->upper_ok || !regime_has(&c->upper, va))
		return false;
	walk(&c->upper, ttbr_base(&c->upper, c->ttbr1), va, ram_read, &s->spaces.ram, &w);
	*pa = w.pa;
	return w.valid;
}

bool linux_read(const struct linux_guest *l, unsigned int cpu, uint64_t va, uint64_t *value)
{
	uint64_t pa;

	return linux_translate(l, cpu, va, &pa) &&
	       ram_read(&l->shadow->spaces.ram, pa, value);
}

unsigned int linux_page_shift(const struct linux_guest *l, unsigned int cpu)
{
	unsigned int granule = l->shadow->cpus[cpu].upper.granule;

	return granule ? granule : 12;
}

/* A page frame and its struct page, from the kernel's boot. Two of them tell where all the others are. */
static void learn(struct linux_guest *l, unsigned int cpu, uint64_t pfn, uint64_t page)
{
	const struct regime *regime = &l->shadow->cpus[cpu].upper;
	unsigned int bits;
	int64_t frames = pfn - l->boot_pfn, bytes = page - l->boot_page;

	if (l->struct_page)
		return;
	if (l->boot_page && frames && bytes / frames > 0 && bytes % frames == 0) {
		l->struct_page = bytes / frames;
		l->vmemmap = page - pfn * l->struct_page;
		/* vmalloc, and modules and the kernel: between the linear map and the struct pages. */
		bits = regime->bits < MIN_BITS ? regime->bits : MIN_BITS;
		l->shadow->lazy_start = -1ull << (bits - 1);
		l->shadow->lazy_end = l->vmemmap + (l->shadow->spaces.ram.base >> regime->granule) * l->struct_page;
	}
	l->boot_pfn = pfn;
	l->boot_page = page;
}

bool linux_page(struct linux_guest *l, unsigned int cpu, uint64_t page, uint64_t pages,
		uint64_t *pa)
{
	unsigned int shift = linux_page_shift(l, cpu);
	uint64_t at = page - l->vmemmap;

	if (!l->struct_page || at % l->struct_page)
		return false;
	*pa = at / l->struct_page << shift;
	return ram_has(&l->shadow->spaces.ram, *pa, pages << shift);
}

void linux_free(struct linux_guest *l, unsigned int cpu, uint64_t pfn, unsigned int order, uint64_t pc)
{
	shadow_free(l->shadow, cpu, pfn, order, pc);
	if (l->stage2)
		shadow_free(l->stage2, cpu, pfn, order, pc);
}

/* @page: the first of 2^@order pages that are freed. Nothing has used the first pages that the kernel frees when it boots. */
static void freed(struct linux_guest *l, unsigned int cpu, uint64_t page,
		  unsigned int order, uint64_t pc)
{
	uint64_t pa;

	if (!l->struct_page)
		return;
	if (order > MOST_ORDER || !linux_page(l, cpu, page, 1ull << order, &pa))
		l->refused++;
	else
		linux_free(l, cpu, pa >> 12, order + linux_page_shift(l, cpu) - 12, pc);
}

bool linux_is_head(const struct linux_guest *l, uint64_t flags)
{
	return flags & (l->old_folios ? OLD_HEAD : PG_HEAD);
}

/* As folio_order(): in the second struct page; the flags of the first say whether there is a second. */
bool linux_order(const struct linux_guest *l, unsigned int cpu, uint64_t folio,
		 unsigned int *order)
{
	bool old = l->old_folios;
	uint64_t value;

	*order = 0;
	if (!linux_read(l, cpu, folio, &value))
		return false;
	if (!linux_is_head(l, value))
		return true;
	if (!linux_read(l, cpu, folio + l->struct_page + (old ? OLD_ORDER / 8 * 8 : 0), &value))
		return false;
	*order = value >> (old ? OLD_ORDER % 8 * 8 : 0) & 0xff;
	return *order <= MOST_ORDER;
}

static void folio_freed(struct linux_guest *l, unsigned int cpu, uint64_t folio, uint64_t pc)
{
	unsigned int order;

	if (linux_order(l, cpu, folio, &order))
		freed(l, cpu, folio, order, pc);
	else
		l->refused++;
}

/* Pages that are linked by their lru. */
static void list_freed(struct linux_guest *l, unsigned int cpu, uint64_t head, uint64_t pc)
{
	uint64_t at = head;

	for (unsigned int n = 0; n < LIST && linux_read(l, cpu, at, &at) && at != head; n++)
		freed(l, cpu, at - LRU, 0, pc);
}

/* Areas of vmalloc, in a list. */
static void areas_returned(struct linux_guest *l, unsigned int cpu, uint64_t head, uint64_t pc)
{
	uint64_t at = head, start, end;

	for (unsigned int n = 0; n < LIST && linux_read(l, cpu, at, &at) && at != head; n++)
		if (linux_read(l, cpu, at - VA_LIST, &start) && linux_read(l, cpu, at - VA_LIST + 8, &end))
			shadow_returned(l->shadow, cpu, start, end, pc);
}

/* Find the root table that the kernel pointer at @va points to. False: no followed root. */
static bool root_at(const struct linux_guest *l, unsigned int cpu, uint64_t va, uint64_t *root)
{
	uint64_t pgd;

	return linux_read(l, cpu, va, &pgd) && pgd >> 63 &&
	       linux_translate(l, cpu, pgd, root) && shadow_is_root(l->shadow, *root);
}

/*
 * Find the root table of an mm. pgd is among the first members of struct mm_struct; its
 * offset depends on the configuration. Nothing else there points to a root table.
 */
static bool root_of(struct linux_guest *l, unsigned int cpu, uint64_t mm, uint64_t *root)
{
	if (l->pgd)
		return root_at(l, cpu, mm + l->pgd, root);
	for (uint64_t at = 8; at < MM_HEAD; at += 8) {
		if (!root_at(l, cpu, mm + at, root))
			continue;
		l->pgd = at;
		return true;
	}
	return false;
}

static struct changer *changer_of(struct linux_guest *l, uint64_t task)
{
	return &l->changers[(task * 0x9e3779b97f4a7c15ull) >> 58];
}

/* A task begins to unmap, protect or move a range of a vma. */
static void at_sync_point(struct linux_guest *l, unsigned int cpu, uint64_t vma, uint64_t start,
		   uint64_t end, bool moves, uint64_t pc)
{
	uint64_t task = l->shadow->cpus[cpu].task, mm, flags, root;

	if (!linux_read(l, cpu, vma + VM_MM, &mm) || !linux_read(l, cpu, vma + VM_FLAGS, &flags))
		return;
	*changer_of(l, task) = (struct changer){
		.task = task, .mm = mm, .moves_hugetlb = moves && flags & VM_HUGETLB && flags & VM_MAYSHARE,
	};
	/* If there is none, no CPU has ever loaded this address space, as during exec. */
	if (root_of(l, cpu, mm, &root))
		shadow_range(l->shadow, cpu, root, start, end, pc);
}

/*
 * Return true for a page table lock. The lock of a PTE or PMD table is in the table's
 * struct page, unless it is too large for that (lockdep). The lock of all levels above
 * is in the mm_struct.
 */
static bool locks_tables(struct linux_guest *l, unsigned int cpu, const struct changer *by,
			 uint64_t lock)
{
	uint64_t pa;

	if (by && lock >= by->mm && lock < by->mm + MM_HEAD)
		return true;
	if (!l->struct_page || lock < l->vmemmap)
		return false;
	return linux_page(l, cpu, lock - (lock - l->vmemmap) % l->struct_page, 1, &pa) &&
	       page_is_followed(&l->shadow->spaces, pa);
}

/*
 * A lock is dropped. mremap() moves HugeTLB pages one after the other, each under its
 * table lock, and flushes at the end. For pages of a file that is legitimate, since the
 * lock of the file's mappings keeps them. So these are not judged by the table lock.
 */
static void unlocked(struct linux_guest *l, unsigned int cpu, uint64_t lock, uint64_t pc)
{
	struct cpu *c = &l->shadow->cpus[cpu];
	const struct changer *by = changer_of(l, c->task);

	if (by->task != c->task)
		by = NULL;
	if (!locks_tables(l, cpu, by, lock))
		return;
	if (by && by->moves_hugetlb)
		c->moving = false;
	shadow_unlock(l->shadow, cpu, pc);
}

/*
 * Page tables are moved: (vma, start, new vma, new start, length, ...) until 6.14. Since
 * then a struct pagetable_move_control has vma, new vma, start, end. A vma begins with its
 * start, which is an address of user space.
 */
static void moved(struct linux_guest *l, unsigned int cpu, const uint64_t x[5], uint64_t pc)
{
	uint64_t vma, start, end;

	if (!linux_read(l, cpu, x[0], &vma))
		return;
	if (!(vma >> 63))
		at_sync_point(l, cpu, x[0], x[1], x[1] + x[4], true, pc);
	else if (linux_read(l, cpu, x[0] + 16, &start) && linux_read(l, cpu, x[0] + 24, &end))
		at_sync_point(l, cpu, vma, start, end, true, pc);
}

void linux_enter(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		 const uint64_t x[5], uint64_t pc)
{
	uint64_t value;

	switch (hook) {
	case HOOK_FREE_PAGES:
		freed(l, cpu, x[0], (unsigned int)x[1], pc);
		break;
	case HOOK_FREE_LIST:
		list_freed(l, cpu, x[0], pc);
		break;
	case HOOK_FREE_FOLIOS:
		/* struct folio_batch: the number in its first byte, pointers from the ninth on */
		if (!linux_read(l, cpu, x[0], &value))
			break;
		for (unsigned int n = value & 0xff, i = 0; i < n && i < BATCH; i++)
			if (linux_read(l, cpu, x[0] + 8 + 8 * i, &value))
				folio_freed(l, cpu, value, pc);
		break;
	case HOOK_FREE_HUGE_FOLIO:
	case HOOK_FREE_HUGE_PAGE:
		folio_freed(l, cpu, x[0], pc);
		break;
	case HOOK_BOOT_FREE:
		/* Since 7.2 without the struct page, which HOOK_BOOT_PAGE then gets. */
		l->pending = !(x[0] >> 63);
		l->pending_pfn = x[0];
		if (!l->pending)
			learn(l, cpu, x[1], x[0]);
		break;
	case HOOK_BOOT_PAGE:
		if (l->pending)
			learn(l, cpu, l->pending_pfn, x[0]);
		l->pending = false;
		break;
	case HOOK_PGD_FREE:
		if (linux_translate(l, cpu, x[1], &value))
			shadow_dead(l->shadow, cpu, value, pc);
		break;
	case HOOK_START_WRITEBACK:
	case HOOK_SWAP_WRITEPAGE:
	case HOOK_FOLIO_COPY:
	case HOOK_COPY_HIGHPAGE:
	case HOOK_FOLIO_UNLOCK:
	case HOOK_MEMCMP_PAGES:
		linux_written(l, cpu, hook, x, pc);
		break;
	case HOOK_UNMAP:
		linux_batch(l, cpu, x[0], &value);
		at_sync_point(l, cpu, x[1], x[2], x[3], false, pc);
		break;
	case HOOK_PROTECT:
		at_sync_point(l, cpu, x[1], x[2], x[3], false, pc);
		break;
	case HOOK_MOVE:
		moved(l, cpu, x, pc);
		break;
	case HOOK_RMAPS:
		shadow_rmaps(l->shadow, cpu, pc);
		linux_written(l, cpu, hook, x, pc);
		break;
	case HOOK_UNLOCK:
		unlocked(l, cpu, x[0], pc);
		break;
	case HOOK_PURGE:
		areas_returned(l, cpu, x[0] - PURGE_LIST, pc);
		break;
	case HOOK_SCHEDULE:
		shadow_sleeps(l->shadow, cpu, pc);
		break;
	case HOOK_NOTIFIED:
		if (l->stage2)
			shadow_settles(l->stage2, cpu, pc);
		break;
	case LINUX_HOOKS:
		break;
	}
}

/* The address of the function that an instruction, or the call before a return address, is in; 0: none. */
static uint64_t function_of(const struct linux_guest *l, uint64_t address, bool returns)
{
	uint64_t offset;

	return symbols_function(&l->symbols, address, returns, &offset) ? address - offset : 0;
}

/*
 * A function that has just begun, or that calls none, may have no frame, and returns to
 * @lr. In others @lr is where the function's own last call returned to, or is in the frame.
 */
void linux_stack(const struct linux_guest *l, unsigned int cpu, uint64_t pc, uint64_t fp,
		 uint64_t lr, struct stack *out)
{
	uint64_t unsign = ~0ull << l->shadow->cpus[cpu].upper.bits, caller, first;

	out->n = 0;
	out->pc[out->n++] = pc;
	lr |= lr >> 55 & 1 ? unsign : 0;
	caller = function_of(l, lr, true);
	if (caller && caller != function_of(l, pc, false) &&
	    !(linux_read(l, cpu, fp + 8, &first) && (first | unsign) == lr))
		out->pc[out->n++] = lr;
	while (out->n < FRAMES) {
		uint64_t next, ret;

		if (fp & 15 || !linux_read(l, cpu, fp, &next) || !linux_read(l, cpu, fp + 8, &ret) || !ret)
			break;
		out->pc[out->n++] = ret | unsign;
		/* Caller frames are at higher addresses, except from an interrupt's stack to another. */
		if (next == fp || !next)
			break;
		fp = next;
	}
}
