/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lull

#if !defined(_TRACE_LULL_VMEMMAP_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LULL_VMEMMAP_H

#include <linux/lull_pause.h>
#include <linux/tracepoint.h>

/* Other CPUs have waited: for each other, and for what was done. */
TRACE_EVENT(lull_vmemmap_pause,
	    TP_PROTO(const struct lull_pause *pause, unsigned int tables,
		     unsigned int entries),
	    TP_ARGS(pause, tables, entries),
	    TP_STRUCT__entry(__field(u64, gather)
			     __field(u64, hold)
			     __field(unsigned int, tries)
			     __field(unsigned int, tables)
			     __field(unsigned int, entries)
	    ),
	    TP_fast_assign(__entry->gather = pause->held - pause->asked;
			   __entry->hold = pause->ended - pause->held;
			   __entry->tries = pause->tries;
			   __entry->tables = tables;
			   __entry->entries = entries;
	    ),
	    TP_printk("gather=%llu ns hold=%llu ns tries=%u tables=%u entries=%u",
		      __entry->gather, __entry->hold, __entry->tries,
		      __entry->tables, __entry->entries)
);

#endif /* _TRACE_LULL_VMEMMAP_H */

/* This part must be outside protection */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace_vmemmap
#include <trace/define_trace.h>
