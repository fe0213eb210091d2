/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lull

#if !defined(_TRACE_LULL_YOUNG_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LULL_YOUNG_H

#include <linux/mm_types.h>
#include <linux/tracepoint.h>

#include "young.h"

TRACE_DEFINE_ENUM(LULL_YOUNG_SYNC);
TRACE_DEFINE_ENUM(LULL_YOUNG_NOSYNC);
TRACE_DEFINE_ENUM(LULL_YOUNG_NONE);

/* A mapping has been made old; what has been decided about its TLB entry. */
TRACE_EVENT(lull_young,
	    TP_PROTO(struct mm_struct *mm, unsigned long start,
		     unsigned long end, int policy),
	    TP_ARGS(mm, start, end, policy),
	    TP_STRUCT__entry(__field(struct mm_struct *, mm)
			     __field(unsigned long, start)
			     __field(unsigned long, end)
			     __field(int, policy)
	    ),
	    TP_fast_assign(__entry->mm = mm;
			   __entry->start = start;
			   __entry->end = end;
			   __entry->policy = policy;
	    ),
	    TP_printk("mm=%p start=%lx end=%lx policy=%s",
		      __entry->mm, __entry->start, __entry->end,
		      __print_symbolic(__entry->policy,
				       { LULL_YOUNG_SYNC, "sync" },
				       { LULL_YOUNG_NOSYNC, "nosync" },
				       { LULL_YOUNG_NONE, "none" }))
);

#endif /* _TRACE_LULL_YOUNG_H */

/* This part must be outside protection */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace_young
#include <trace/define_trace.h>
