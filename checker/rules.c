// SPDX-License-Identifier: GPL-2.0-only
/*
 * rules - the names and sentences of the rules. See rules.h.
 */
#include "rules.h"

const struct rule_text rules[] = {
#define RULE(name, ...) [RULE_##name] = { __VA_ARGS__ },
#include "rules.inc"
#undef RULE
};
