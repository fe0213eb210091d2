// SPDX-License-Identifier: GPL-2.0-only
/*
 * linux - see linux.h.
 */
#include <stdio.h>
#include <string.h>

#include "linux.h"

#define STRUCT_PAGE	64		/* bytes: "struct page" of every arm64 configuration */
#define PG_HEAD		(1ull << 6)	/* "Must be in bit 6", linux/page-flags.h */
#define BATCH		31		/* PAGEVEC_SIZE; 15 until 6.9 */

static const char * const names[LINUX_HOOKS] = {
	"free_unref_page", "free_unref_folios", "__free_pages_ok", "free_huge_folio",
	"pgd_free", "memstart_addr",
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
			snprintf(error, size, "hook=%.*s: unknown (known: free_unref_page free_unref_folios __free_pages_ok free_huge_folio pgd_free memstart_addr __folio_start_writeback swap_writepage folio_copy folio_mc_copy copy_highpage tlb_flush_rmap_batch folio_unlock)",
				 (int)(hook->len < 64 ? hook->len : 64), hook->name);
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
 * VMEMMAP_START of asm/memory.h, for a kernel of 4 KiB pages and that VA_BITS.
 * Its address space is as large on a machine with fewer bits, where
 * memstart_addr is biased instead.
 */
static uint64_t vmemmap_start(unsigned int va_bits)
{
	uint64_t page_offset = -(1ull << va_bits);
	uint64_t page_end = -(1ull << ((va_bits > 48 ? 48 : va_bits) - 1));

	return -(1ull << 30) - (page_end - page_offset) / 4096 * STRUCT_PAGE;
}

/* Which of them makes this page one of the guest's RAM? They are terabytes apart. */
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

/* folio_order(): the flags of the first page, the order in those of the second. */
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

void linux_enter(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		 const uint64_t x[3], uint64_t pc)
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
		/* Frames lie upwards; but an interrupt's stack is another one. */
		if (next == fp || !next)
			break;
		fp = next;
	}
}
