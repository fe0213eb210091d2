/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lull

#if !defined(_TRACE_LULL_RESIDENCY_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LULL_RESIDENCY_H

#include <linux/mm_types.h>
#include <linux/tracepoint.h>

#include "residency.h"

TRACE_DEFINE_ENUM(RES_NOWHERE);
TRACE_DEFINE_ENUM(RES_HERE);
TRACE_DEFINE_ENUM(RES_EVERYWHERE);
TRACE_DEFINE_ENUM(RES_ASID_HERE);
TRACE_DEFINE_ENUM(RES_ASID_EVERYWHERE);
TRACE_DEFINE_ENUM(RES_LOAD_CLEAN);
TRACE_DEFINE_ENUM(RES_LOAD_LOCAL);
TRACE_DEFINE_ENUM(RES_LOAD_BROADCAST);

/* Entries have changed; the word as it was, and who is told. */
TRACE_EVENT(lull_flush,
	    TP_PROTO(struct mm_struct *mm, u64 word, int reach),
	    TP_ARGS(mm, word, reach),
	    TP_STRUCT__entry(__field(struct mm_struct *, mm)
			     __field(u64, word)
			     __field(int, reach)
	    ),
	    TP_fast_assign(__entry->mm = mm;
			   __entry->word = word;
			   __entry->reach = reach;
	    ),
	    TP_printk("mm=%p word=%llx reach=%s", __entry->mm, __entry->word,
		      __print_symbolic(__entry->reach,
				       { RES_NOWHERE, "nowhere" },
				       { RES_HERE, "here" },
				       { RES_EVERYWHERE, "everywhere" },
				       { RES_ASID_HERE, "asid here" },
				       { RES_ASID_EVERYWHERE, "asid everywhere" }))
);

/* A CPU loads it; the word as it was, and what it had to do before. */
TRACE_EVENT(lull_load,
	    TP_PROTO(struct mm_struct *mm, u64 word, int todo),
	    TP_ARGS(mm, word, todo),
	    TP_STRUCT__entry(__field(struct mm_struct *, mm)
			     __field(u64, word)
			     __field(int, todo)
	    ),
	    TP_fast_assign(__entry->mm = mm;
			   __entry->word = word;
			   __entry->todo = todo;
	    ),
	    TP_printk("mm=%p word=%llx todo=%s", __entry->mm, __entry->word,
		      __print_symbolic(__entry->todo,
				       { RES_LOAD_CLEAN, "nothing" },
				       { RES_LOAD_LOCAL, "local" },
				       { RES_LOAD_BROADCAST, "broadcast" }))
);

#endif /* _TRACE_LULL_RESIDENCY_H */

/* This part must be outside protection */
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace_residency
#include <trace/define_trace.h>
