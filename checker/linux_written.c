// SPDX-License-Identifier: GPL-2.0-only
/*
 * linux_written - the functions at which Linux relies on a page not being written any
 * more (for the rule `written`).
 *
 * When Linux enters one of these functions, the flush of the page's old entries
 * must be complete:
 *
 * __folio_start_writeback()  A device is about to read a page of a file, or of swap
 *	space, which was cleaned before (after folio_clear_dirty_for_io()).
 * swap_writepage(), swap_writeout()  The same for swap space. It reads the page, to see whether
 *	it is all zeroes and to compress it, before writeback begins.
 * folio_mc_copy(), folio_copy()  Migration copies the contents.
 * copy_highpage()            Copy-on-write and khugepaged copy the contents. A page of a
 *	file may be copied while others write to it. So such a page is judged only when
 *	it is locked and not mapped, as khugepaged has it.
 * tlb_flush_rmaps()          munmap() must have flushed dirty entries of a file: from now
 *	on folio_mkclean() does not find them. (Compilers inline tlb_flush_rmap_batch().)
 * folio_unlock()             A page of a file that is not mapped. The task that locks it
 *	next may clean it, and finds no entry to flush. Small folios only: kernels differ
 *	in where they count the mappings of larger ones.
 * memcmp_pages()             KSM has made a page read-only, and compares it with another one
 *	before it merges both. It also compares pages that may be written, while it searches.
 */
#include "linux.h"

#define PG_LOCKED	(1ull << 0)
#define MAPPING_ANON	1ull		/* PAGE_MAPPING_ANON: in the low bits of the pointer */
#define MAPPING_FLAGS	3ull
#define MOST_GATHERED	510		/* MAX_GATHER_BATCH, 4 KiB */
#define DELAY_RMAP	1ull		/* ENCODED_PAGE_BIT_DELAY_RMAP */
#define NR_PAGES_NEXT	2ull		/* ENCODED_PAGE_BIT_NR_PAGES_NEXT */
#define ENCODED		3ull
#define GATHER_HEAD	512		/* of struct mmu_gather: its active is in it */

/* Of struct page and struct folio, in bytes. */
enum { FLAGS = 0, COMPOUND_HEAD = 8, MAPPING = 24, MAPCOUNT = 48 };

/* compound_info of 7.1 and later: of a tail page, which bits of its address are those of its head. */
#define HEAD_MASKS	(-1ull << 30)

struct folio {
	uint64_t at, flags, mapping;
	uint32_t mapcount;	/* of a small folio: number of mappings, less one */
	uint64_t pages;
};

static bool folio_read(struct linux_guest *l, unsigned int cpu, uint64_t page, struct folio *f)
{
	uint64_t head, count;
	unsigned int order;

	if (!linux_read(l, cpu, page + COMPOUND_HEAD, &head))
		return false;
	if (!(head & 1))
		f->at = page;
	else
		f->at = head >= HEAD_MASKS ? page & head : head - 1;
	if (!linux_read(l, cpu, f->at + FLAGS, &f->flags) ||
	    !linux_read(l, cpu, f->at + MAPPING, &f->mapping) ||
	    !linux_read(l, cpu, f->at + MAPCOUNT, &count) ||
	    !linux_order(l, cpu, f->at, &order))
		return false;
	f->mapcount = (uint32_t)count;
	f->pages = 1ull << order;
	return true;
}

/* Return true for a small folio of a file that is not mapped. */
static bool folio_unmapped(const struct linux_guest *l, const struct folio *f)
{
	return !linux_is_head(l, f->flags) && f->mapping && !(f->mapping & MAPPING_FLAGS) &&
	       f->mapcount == UINT32_MAX;
}

static void written(struct linux_guest *l, unsigned int cpu, uint64_t page, uint64_t pages,
		    enum sync_what how, uint64_t pc)
{
	unsigned int more = linux_page_shift(l, cpu) - 12;
	uint64_t pa;

	if (!linux_page(l, cpu, page, pages, &pa)) {
		l->refused++;
		return;
	}
	shadow_written(l->shadow, cpu, pa >> 12, pages << more, how, pc);
	if (l->stage2)
		shadow_written(l->stage2, cpu, pa >> 12, pages << more, how, pc);
}

static void folio_written(struct linux_guest *l, unsigned int cpu, uint64_t folio,
			  enum sync_what how, uint64_t pc)
{
	struct folio f;

	if (folio_read(l, cpu, folio, &f))
		written(l, cpu, f.at, f.pages, how, pc);
	else
		l->refused++;
}

/* struct mmu_gather_batch: next (8 bytes), nr and max (4 each), then the encoded pages. */
static void rmaps_flushed(struct linux_guest *l, unsigned int cpu, uint64_t batch, uint64_t pc)
{
	uint64_t nr, page, pages;

	if (!linux_read(l, cpu, batch + 8, &nr))
		return;
	nr = nr & UINT32_MAX;
	for (uint64_t i = 0; i < nr && i < MOST_GATHERED; i++) {
		if (!linux_read(l, cpu, batch + 16 + 8 * i, &page))
			return;
		pages = 1;
		if (page & NR_PAGES_NEXT) {
			if (!linux_read(l, cpu, batch + 16 + 8 * ++i, &pages))
				return;
			pages >>= 2;	/* encode_nr_pages() */
		}
		if (page & DELAY_RMAP)
			written(l, cpu, page & ~ENCODED, pages, SYNC_OWN, pc);
	}
}

/* In a new mmu_gather, active points to local, which is behind it. */
bool linux_batch(struct linux_guest *l, unsigned int cpu, uint64_t gather, uint64_t *batch)
{
	if (l->batch)
		return linux_read(l, cpu, gather + l->batch, batch);
	for (uint64_t at = 8; at < GATHER_HEAD; at += 8) {
		if (!linux_read(l, cpu, gather + at, batch) || *batch != gather + at + 8)
			continue;
		l->batch = at;
		return true;
	}
	return false;
}

void linux_written(struct linux_guest *l, unsigned int cpu, enum linux_hook hook,
		   const uint64_t x[3], uint64_t pc)
{
	uint64_t pa, batch, local;
	struct folio f;

	switch (hook) {
	case HOOK_START_WRITEBACK:
		folio_written(l, cpu, x[0], SYNC_ALL, pc);
		break;
	case HOOK_SWAP_WRITEPAGE:
		/* swap_writeout() of 7.x has the folio behind what it writes to. */
		folio_written(l, cpu, linux_page(l, cpu, x[0], 1, &pa) ? x[0] : x[1], SYNC_ALL, pc);
		break;
	case HOOK_FOLIO_COPY:
		folio_written(l, cpu, x[1], SYNC_COPY, pc);
		break;
	case HOOK_COPY_HIGHPAGE:
		if (folio_read(l, cpu, x[1], &f) &&
		    (f.mapping & MAPPING_ANON || (f.flags & PG_LOCKED && folio_unmapped(l, &f))))
			written(l, cpu, x[1], 1, SYNC_COPY, pc);
		break;
	case HOOK_RMAPS:
		if (!l->shadow->pendings.n || !linux_batch(l, cpu, x[0], &batch))
			break;
		local = x[0] + l->batch + 8;
		rmaps_flushed(l, cpu, local, pc);
		if (batch != local)
			rmaps_flushed(l, cpu, batch, pc);
		break;
	case HOOK_FOLIO_UNLOCK:
		if (folio_read(l, cpu, x[0], &f) && folio_unmapped(l, &f))
			written(l, cpu, f.at, 1, SYNC_UNLOCK, pc);
		break;
	case HOOK_MEMCMP_PAGES:
		written(l, cpu, x[0], 1, SYNC_OWN, pc);
		written(l, cpu, x[1], 1, SYNC_OWN, pc);
		break;
	default:
		break;
	}
}
