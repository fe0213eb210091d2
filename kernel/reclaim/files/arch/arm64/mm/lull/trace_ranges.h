/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lull

#if !defined(_TRACE_LULL_RANGES_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LULL_RANGES_H

#include <linux/mm_types.h>
#include <linux/tracepoint.h>

#include <asm/lull_ranges.h>
#include <asm/lull_residency.h>

TRACE_DEFINE_ENUM(RES_NOWHERE);
TRACE_DEFINE_ENUM(RES_HERE);
TRACE_DEFINE_ENUM(RES_EVERYWHERE);

/* Ranges are flushed together: the first, how many, and who is told. */
TRACE_EVENT(lull_ranges,
	    TP_PROTO(struct mm_struct *mm, const struct lull_range *ranges,
		     unsigned int nr, bool last_level, int reach),
	    TP_ARGS(mm, ranges, nr, last_level, reach),
	    TP_STRUCT__entry(__field(struct mm_struct *, mm)
			     __field(unsigned long, start)
			     __field(unsigned long, end)
			     __field(unsigned int, nr)
			     __field(bool, last_level)
			     __field(int, reach)
	    ),
	    TP_fast_assign(__entry->mm = mm;
			   __entry->start = ranges->start;
			   __entry->end = ranges->end;
			   __entry->nr = nr;
			   __entry->last_level = last_level;
			   __entry->reach = reach;
	    ),
	    TP_printk("mm=%p start=%lx end=%lx nr=%u %s reach=%s",
		      __entry->mm, __entry->start, __entry->end, __entry->nr,
		      __entry->last_level ? "leaves" : "tables",
		      __print_symbolic(__entry->reach,
				       { RES_NOWHERE, "nowhere" },
				       { RES_HERE, "here" },
				       { RES_EVERYWHERE, "everywhere" }))
);

#endif /* _TRACE_LULL_RANGES_H */

/* This part must be outside protection */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace_ranges
#include <trace/define_trace.h>
