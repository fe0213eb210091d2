/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json - writes one JSON value per line.
 *
 * This module writes the commas. Inside an object the caller writes a key before each
 * value. The caller checks the stream for errors with ferror().
 */
#ifndef LULL_JSON_H
#define LULL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool comma;	/* the next value or key needs a comma before it */
};

void json_open(struct json *j, char bracket);	/* '{' or '[' */
void json_close(struct json *j, char bracket);	/* '}' or ']' */
void json_key(struct json *j, const char *key);
void json_string(struct json *j, const char *value);
void json_u64(struct json *j, uint64_t value);
void json_i64(struct json *j, int64_t value);
void json_bool(struct json *j, bool value);
void json_end_line(struct json *j);

/* Write a line {"error": text}. */
void json_error(FILE *out, const char *text);

/* Write a key and a number. */
void json_field(struct json *j, const char *key, uint64_t value);

#endif
