/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json - writes one JSON value per line.
 *
 * Commas are its business. Inside an object every value follows its key.
 * Errors of the stream are the caller's to find with ferror().
 */
#ifndef LULL_JSON_H
#define LULL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool comma;	/* something stands before the next value or key */
};

void json_open(struct json *j, char bracket);	/* '{' or '[' */
void json_close(struct json *j, char bracket);	/* '}' or ']' */
void json_key(struct json *j, const char *key);
void json_string(struct json *j, const char *value);
void json_u64(struct json *j, uint64_t value);
void json_i64(struct json *j, int64_t value);
void json_bool(struct json *j, bool value);
void json_end_line(struct json *j);

/* A line that says what went wrong. */
void json_error(FILE *out, const char *text);

/* A key and its number: most of what there is to say. */
void json_field(struct json *j, const char *key, uint64_t value);

#endif
