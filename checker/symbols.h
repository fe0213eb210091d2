/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * symbols - the names of the kernel's functions, from a file in the form of System.map.
 *
 * The kernel may run at other addresses than the file says. All differ by the same number,
 * the slide. KASLR is one reason; the other is an image that does not say where it was
 * linked to. Addresses that come in here are the guest's.
 */
#ifndef LULL_SYMBOLS_H
#define LULL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_TEXT 160		/* room for a description */

struct symbol {
	uint64_t address;	/* as in the file */
	const char *name;
	char kind;		/* nm's letter */
};

struct symbols {
	char *text;		/* the file; names point into it */
	struct symbol *all;	/* by address; of one address the best name first */
	size_t n;
	uint64_t first, end;	/* _text and _end, as in the file; first 0: not known */
	uint64_t slide;
};

/* Read a file. Returns false, with a reason, if it cannot be read or is none of symbols. */
bool symbols_read(struct symbols *s, const char *path, char *error, size_t size);
void symbols_free(struct symbols *s);

/* The address in the file of the function or variable @name; 0: there is none. */
uint64_t symbols_find(const struct symbols *s, const char *name);

/*
 * The function that @address is in, and the offset there, or NULL: user space, a module,
 * data. @returns: it is a return address, and the function is that of the call before it.
 */
const char *symbols_function(const struct symbols *s, uint64_t address, bool returns,
			     uint64_t *offset);

/* The same for an address of user space that would be the kernel's in the identity map. */
const char *symbols_identity(const struct symbols *s, uint64_t address, uint64_t *offset);

/* Describe an address: "function+0x1c", or the number and whether it is one of user space. */
void symbols_describe(const struct symbols *s, uint64_t address, bool returns,
		      char text[SYMBOL_TEXT]);

#endif
