/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * report_text - the lines of a report for people.
 */
#ifndef LULL_REPORT_TEXT_H
#define LULL_REPORT_TEXT_H

#include <stdio.h>

#include "report.h"

/* Write the lines of a report; @number is its own. */
void report_text(FILE *out, const struct reports *r, unsigned int number,
		 const struct finding *f);

#endif
