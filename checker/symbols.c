// SPDX-License-Identifier: GPL-2.0-only
/*
 * symbols - the names of the kernel's functions. See symbols.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

#define LOADED	0x40200000ull	/* where QEMU's virt machine loads an Image: the identity map begins there */
#define USER_BIT (1ull << 55)	/* 0 in addresses of user space; never part of a pointer's signature */
#define SIGNED	(0xffffull << 48)	/* may be part of one; all 1 in a kernel address without */
#define CALL	4		/* bytes of an instruction: a call returns behind it */

/* Letters of functions, and of absolute symbols, which are no places. */
static bool is_code(char kind)
{
	return kind && strchr("tTwWiI", kind);
}

static bool is_place(char kind)
{
	return kind != 'a' && kind != 'A';
}

/* The linker names the ends of a section of code. A function may begin there, whose name is better. */
static bool is_section(const char *name)
{
	size_t n = strlen(name);

	return (n >= 11 && !strcmp(name + n - 11, "_text_start")) ||
	       (n >= 9 && !strcmp(name + n - 9, "_text_end"));
}

/* By address; then code first, then by how good a name is: global, and without underscores. */
static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	const int order[] = {
		(x->address > y->address) - (x->address < y->address),
		is_code(y->kind) - is_code(x->kind),
		is_section(x->name) - is_section(y->name),
		(x->name[0] == '_') - (y->name[0] == '_'),
		(x->kind >= 'a') - (y->kind >= 'a'),
	};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (order[i])
			return order[i];
	return strcmp(x->name, y->name);
}

static char *read_all(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t n = 0, room = 1 << 20;
	char *text = malloc(room);

	while (file && text) {
		size_t got = fread(text + n, 1, room - n - 1, file);
		char *more;

		if (!got && !ferror(file)) {
			text[n] = 0;
			fclose(file);
			return text;
		}
		n += got;
		more = room - n > 1 ? text : realloc(text, room *= 2);
		if (!got || !more)
			break;
		text = more;
	}
	if (file)
		fclose(file);
	free(text);
	return NULL;
}

/* Read a line "ADDRESS LETTER NAME". Returns false if it is another one. */
static bool parse(char *line, struct symbol *symbol)
{
	int end = 0;

	return sscanf(line, "%16" SCNx64 " %c %n", &symbol->address, &symbol->kind, &end) == 2 && end &&
	       line[end] && (symbol->name = line + end);
}

bool symbols_read(struct symbols *s, const char *path, char *error, size_t size)
{
	unsigned int number = 0;
	size_t room = 0;
	char *save;

	*s = (struct symbols){ .text = read_all(path) };
	if (!s->text) {
		snprintf(error, size, "cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	for (char *line = s->text, *next; *line; line = next) {
		struct symbol symbol;

		number++;
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = 0;
		/* Undefined symbols have no address; those of modules have "[module]" behind them. */
		if (!*line || strspn(line, " ") >= 8 || strchr(line, '['))
			continue;
		if (!parse(line, &symbol)) {
			snprintf(error, size, "'%s' line %u is not of the form ADDRESS LETTER NAME", path, number);
			symbols_free(s);
			return false;
		}
		if (!is_place(symbol.kind) || symbol.name[0] == '$')
			continue;
		if (s->n == room) {
			room = room ? 2 * room : 1 << 16;
			s->all = realloc(s->all, room * sizeof(*s->all));
			if (!s->all)
				abort();
		}
		strtok_r((char *)symbol.name, " \t\r", &save);
		s->all[s->n++] = symbol;
	}
	if (!s->n) {
		snprintf(error, size, "'%s' has no symbols", path);
		symbols_free(s);
		return false;
	}
	qsort(s->all, s->n, sizeof(*s->all), compare);
	/* Without CONFIG_KALLSYMS_ALL, 6.1 lists no data; a kernel is linked to a multiple of 2 MiB. */
	s->first = symbols_find(s, "_text") ?: symbols_find(s, "_stext") & -(2ull << 20);
	s->end = symbols_find(s, "_end") ?: s->all[s->n - 1].address + CALL;
	return true;
}

void symbols_free(struct symbols *s)
{
	free(s->all);
	free(s->text);
	*s = (struct symbols){ 0 };
}

uint64_t symbols_find(const struct symbols *s, const char *name)
{
	uint64_t local = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->all[i].name, name))
			continue;
		if (s->all[i].kind < 'a')
			return s->all[i].address;
		local = local ?: s->all[i].address;
	}
	return local;
}

/* The function of an address of the file. */
static const char *function_at(const struct symbols *s, uint64_t address, uint64_t back,
			       uint64_t *offset)
{
	size_t low = 0, high = s->n;

	if (address >= s->end)
		return NULL;
	/* The last symbol that is not behind the address; then the first of that symbol's address. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->all[middle].address <= address - back)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low--)
		return NULL;
	while (low && s->all[low - 1].address == s->all[low].address)
		low--;
	*offset = address - s->all[low].address;
	return is_code(s->all[low].kind) ? s->all[low].name : NULL;
}

const char *symbols_function(const struct symbols *s, uint64_t address, bool returns,
			     uint64_t *offset)
{
	if (!(address & USER_BIT))
		return NULL;
	return function_at(s, (address | SIGNED) - s->slide, returns ? CALL : 0, offset);
}

const char *symbols_identity(const struct symbols *s, uint64_t address, uint64_t *offset)
{
	uint64_t linked = address - LOADED + s->first;

	return s->first && linked >= s->first ? function_at(s, linked, 0, offset) : NULL;
}

void symbols_describe(const struct symbols *s, uint64_t address, bool returns,
		      char text[SYMBOL_TEXT])
{
	uint64_t offset;
	const char *name = symbols_function(s, address, returns, &offset);

	if (name) {
		snprintf(text, SYMBOL_TEXT, "%s+0x%" PRIx64, name, offset);
		return;
	}
	snprintf(text, SYMBOL_TEXT, "0x%" PRIx64, address);
	if (address & USER_BIT)
		return;
	name = symbols_identity(s, address, &offset);
	if (name)
		snprintf(text, SYMBOL_TEXT, "0x%" PRIx64 " (user space, or %s+0x%" PRIx64 " in the identity map)",
			 address, name, offset);
	else
		snprintf(text, SYMBOL_TEXT, "0x%" PRIx64 " (user space)", address);
}
