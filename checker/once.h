/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * once - words that one vCPU's thread writes while another reads them without the lock.
 */
#ifndef LULL_ONCE_H
#define LULL_ONCE_H

#ifndef LULL_RACES	/* checker/tests/test_threads.py shows that the sanitizer sees these races */
#define read_once(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define write_once(p, value)	__atomic_store_n(p, value, __ATOMIC_RELAXED)
#else
#define read_once(p)		(*(p))
#define write_once(p, value)	((void)(*(p) = (value)))
#endif

/* With the lock held: only one thread writes at a time. */
#define add_once(p, n)		write_once(p, *(p) + (n))

#endif
