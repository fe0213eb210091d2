/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rules - the rules and their kinds. rules.awk makes rules.inc of rules.toml: a line
 * RULE(FREE_PAGE, "free", "page", says, manual) for each kind. So a name that rules.toml
 * does not have does not compile.
 */
#ifndef LULL_RULES_H
#define LULL_RULES_H

enum rule {
	RULE_NONE,
#define RULE(name, ...) RULE_##name,
#include "rules.inc"
#undef RULE
};

struct rule_text {
	const char *rule, *kind;
	const char *says;	/* what happened */
	const char *manual;	/* the section of the manual that forbids it */
};

extern const struct rule_text rules[];	/* by enum rule */

#endif
