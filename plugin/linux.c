// SPDX-License-Identifier: GPL-2.0-only
/*
 * linux - where Linux frees pages and relies on flushes, and its stacks. See linux.h.
 */
#include <stdio.h>
#include <string.h>

#include "linux.h"
#include "rely.h"

#define STRUCT_PAGE	64		/* bytes: "struct page" of every arm64 configuration */
#define PG_HEAD		(1ull << 6)	/* "Must be in bit 6", linux/page-flags.h */
#define BATCH		31		/* PAGEVEC_SIZE; 15 until 6.9 */
#define VM_MM		16		/* of vm_mm in struct vm_area_struct, behind vm_start and vm_end */
#define VM_FLAGS	32		/* behind vm_mm and vm_page_prot */
#define VM_HUGETLB	0x400000
#define MM_HEAD		512		/* of struct mm_struct: its pgd and page_table_lock are in it */

static const char * const names[LINUX_HOOKS] = {
	"free_unref_page", "free_unref_folios", "__free_pages_ok", "free_huge_folio",
	"pgd_free", "unmap_page_range", "change_protection", "move_page_tables",
	"tlb_flush_rmaps", "_raw_spin_unlock", "schedule", "memstart_addr",
	"__folio_start_writeback", "swap_writepage", "folio_copy", "folio_mc_copy",
	"copy_highpage", "tlb_flush_rmap_batch", "folio_unlock",
};

bool linux_init(struct linux_guest *l, struct shadow *s, const struct options *o,
		char *error, size_t size)
{
	memset(l, 0, sizeof(*l));
	l->shadow = s;
	for (unsigned int i = 0; i < o->nhooks; i++) {
		const struct hook *hook = &o->hooks[i];
		int n;

		for (n = 0; n < LINUX_HOOKS; n++)
			if (strlen(names[n]) == hook->len &&
			    !memcmp(names[n], hook->name, hook->len))
				break;
		if (n == LINUX_HOOKS) {
			int at = snprintf(error, size, "hook=%.*s: unknown (known:",
					  (int)(hook->len < 64 ? hook->len : 64), hook->name);

			for (n = 0; n < LINUX_HOOKS && at < (int)size; n++)
				at += snprintf(error + at, size - at, " %s%s", names[n],
					       n == LINUX_HOOKS - 1 ? ")" : "");
			return false;
		}
		l->address[n] = hook->addr;
	}
	return true;
}

int linux_hook_at(const struct linux_guest *l, uint64_t va)
{
	for (int n = 0; n < LINUX_HOOKS; n++)
		if (n != HOOK_MEMSTART && l->address[n] == va && va)
			return n;
	return -1;
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

/*
 * VMEMMAP_START of asm/memory.h, for a kernel with 4 KiB pages and this VA_BITS. It is the
 * same on a machine with fewer address bits: there memstart_addr is biased instead.
 */
static uint64_t vmemmap_start(unsigned int va_bits)
{
	uint64_t page_offset = -(1ull << va_bits);
	uint64_t page_end = -(1ull << ((va_bits > 48 ? 48 : va_bits) - 1));

	return -(1ull << 30) - (page_end - page_offset) / 4096 * STRUCT_PAGE;
}

/*
 * Find the VA_BITS with which this struct page belongs to a page of the guest's RAM. The
 * possible vmemmaps are terabytes apart.
 */
static bool find_vmemmap(struct linux_guest *l, unsigned int cpu, uint64_t page)
{
	static const uint8_t bits[] = { 48, 52, 39, 36, 42, 47 };
	const struct ram *ram = &l->shadow->spaces.ram;
	uint64_t memstart;

	if (!linux_read(l, cpu, l->address[HOOK_MEMSTART], &memstart))
		return false;
	for (size_t i = 0; i < sizeof(bits); i++) {
		uint64_t base = vmemmap_start(bits[i]) -
				((int64_t)memstart >> 12) * STRUCT_PAGE;

		if (!ram_has(ram, (page - base) / STRUCT_PAGE << 12, 4096))
			continue;
		l->vmemmap = base;
		l->found = true;
		return true;
	}
	return false;
}

bool linux_pfn(struct linux_guest *l, unsigned int cpu, uint64_t page, uint64_t *pfn)
{
	if (!l->found && !find_vmemmap(l, cpu, page))
		return false;
	*pfn = (page - l->vmemmap) / STRUCT_PAGE;
	return true;
}

static void freed(struct linux_guest *l, unsigned int cpu, uint64_t page,
		  unsigned int order, uint64_t pc)
{
	uint64_t pfn;

	if (!linux_pfn(l, cpu, page, &pfn)) {
		l->refused++;
		return;
	}
	if (order > 18 || !ram_has(&l->shadow->spaces.ram, pfn << 12, 4096ull << order)) {
		l->refused++;
		return;
	}
	shadow_free(l->shadow, cpu, pfn, order, pc);
}

/*
 * A folio is freed. Its order is, as in folio_order(), in the flags of the second struct
 * page; the flags of the first say whether there is a second.
 */
static void folio_freed(struct linux_guest *l, unsigned int cpu, uint64_t folio, uint64_t pc)
{
	uint64_t flags, order = 0;

	if (!linux_read(l, cpu, folio, &flags) ||
	    (flags & PG_HEAD && !linux_read(l, cpu, folio + STRUCT_PAGE, &order))) {
		l->refused++;
		return;
	}
	freed(l, cpu, folio, order & 0xff, pc);
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
static void relied(struct linux_guest *l, unsigned int cpu, uint64_t vma, uint64_t start,
		   uint64_t end, bool moves, uint64_t pc)
{
	uint64_t task = l->shadow->cpus[cpu].task, mm, flags, root;

	if (!linux_read(l, cpu, vma + VM_MM, &mm) || !linux_read(l, cpu, vma + VM_FLAGS, &flags))
		return;
	*changer_of(l, task) = (struct changer){
		.task = task, .mm = mm, .moves_hugetlb = moves && flags & VM_HUGETLB,
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
	if (!l->found && !find_vmemmap(l, cpu, lock & ~(STRUCT_PAGE - 1ull)))
		return false;
	pa = (lock - l->vmemmap) / STRUCT_PAGE << 12;
	return lock >= l->vmemmap && page_is_followed(&l->shadow->spaces, pa);
}

/*
 * A lock is dropped. mremap() moves HugeTLB pages one after the other, each under its
 * table lock, and flushes at the end. That is legitimate, since the lock of the file's
 * mappings keeps the pages. So these are not judged by the table lock.
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

void linux_enter(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		 const uint64_t x[5], uint64_t pc)
{
	uint64_t value;

	switch (hook) {
	case HOOK_FREE_UNREF_PAGE:
	case HOOK_FREE_PAGES_OK:
		freed(l, cpu, x[0], (unsigned int)x[1], pc);
		break;
	case HOOK_FREE_UNREF_FOLIOS:
		/* struct folio_batch: the number in its first byte, pointers from the ninth on */
		if (!linux_read(l, cpu, x[0], &value))
			break;
		for (unsigned int n = value & 0xff, i = 0; i < n && i < BATCH; i++)
			if (linux_read(l, cpu, x[0] + 8 + 8 * i, &value))
				folio_freed(l, cpu, value, pc);
		break;
	case HOOK_FREE_HUGE_FOLIO:
		folio_freed(l, cpu, x[0], pc);
		break;
	case HOOK_PGD_FREE:
		if (linux_translate(l, cpu, x[1], &value))
			shadow_dead(l->shadow, cpu, value, pc);
		break;
	case HOOK_START_WRITEBACK:
	case HOOK_SWAP_WRITEPAGE:
	case HOOK_FOLIO_COPY:
	case HOOK_FOLIO_MC_COPY:
	case HOOK_COPY_HIGHPAGE:
	case HOOK_FLUSH_RMAP_BATCH:
	case HOOK_FOLIO_UNLOCK:
		linux_written(l, cpu, hook, x, pc);
		break;
	case HOOK_UNMAP:
	case HOOK_PROTECT:
		relied(l, cpu, x[1], x[2], x[3], false, pc);
		break;
	case HOOK_MOVE:
		relied(l, cpu, x[0], x[1], x[1] + x[4], true, pc);
		break;
	case HOOK_RMAPS:
		shadow_rmaps(l->shadow, cpu, pc);
		break;
	case HOOK_UNLOCK:
		unlocked(l, cpu, x[0], pc);
		break;
	case HOOK_SCHEDULE:
		shadow_sleeps(l->shadow, cpu, pc);
		break;
	case HOOK_MEMSTART:
	case LINUX_HOOKS:
		break;
	}
}

void linux_stack(const struct linux_guest *l, unsigned int cpu, uint64_t pc, uint64_t fp,
		 struct stack *out)
{
	uint64_t unsign = ~0ull << l->shadow->cpus[cpu].upper.bits;

	out->n = 0;
	out->pc[out->n++] = pc;
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
