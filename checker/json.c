// SPDX-License-Identifier: GPL-2.0-only
/*
 * json - writes one JSON value per line. See json.h.
 */
#include <inttypes.h>

#include "json.h"

static void separate(struct json *j)
{
	if (j->comma)
		fputc(',', j->out);
	j->comma = true;
}

static void put_string(FILE *out, const char *s)
{
	fputc('"', out);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			fprintf(out, "\\u%04x", (unsigned int)*s);
		else
			fputc(*s, out);
	}
	fputc('"', out);
}

void json_open(struct json *j, char bracket)
{
	separate(j);
	fputc(bracket, j->out);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	fputc(bracket, j->out);
	j->comma = true;
}

void json_key(struct json *j, const char *key)
{
	separate(j);
	put_string(j->out, key);
	fputc(':', j->out);
	j->comma = false;
}

void json_string(struct json *j, const char *value)
{
	separate(j);
	put_string(j->out, value);
}

void json_u64(struct json *j, uint64_t value)
{
	separate(j);
	fprintf(j->out, "%" PRIu64, value);
}

void json_i64(struct json *j, int64_t value)
{
	separate(j);
	fprintf(j->out, "%" PRId64, value);
}

void json_bool(struct json *j, bool value)
{
	separate(j);
	fputs(value ? "true" : "false", j->out);
}

void json_field(struct json *j, const char *key, uint64_t value)
{
	json_key(j, key);
	json_u64(j, value);
}

void json_end_line(struct json *j)
{
	fputc('\n', j->out);
	j->comma = false;
}

void json_error(FILE *out, const char *text)
{
	struct json j = { .out = out };

	json_open(&j, '{');
	json_key(&j, "error");
	json_string(&j, text);
	json_close(&j, '}');
	json_end_line(&j);
	fflush(out);
}
