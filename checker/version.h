/* SPDX-License-Identifier: GPL-2.0-only */
/* The version of the checker: what it writes first, and its package have it. */
#define LULL_VERSION "0.1.0"
