/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the Lull features share: the run-time switch.
 *
 * A feature has policies, one of which is chosen. A switch names them, shows
 * them in /sys/kernel/mm/lull with the chosen one in [brackets], and takes the
 * default from a boot parameter:
 *
 *	early_param("lull_<feature>")	lull_switch_boot(): remember the choice
 *	subsys_initcall()		lull_switch_register(): apply it, and
 *					create the file
 *	write to the file		lull_switch_set(): apply another one
 *
 * Counters are ordinary VM events, and tracepoints ordinary trace events of
 * the system "lull": neither needs anything from here.
 */
#ifndef __ARM64_MM_LULL_H
#define __ARM64_MM_LULL_H

#include <linux/jump_label.h>
#include <linux/kobject.h>
#include <linux/sysfs.h>

/**
 * struct lull_switch - the policy of a feature, and how to change it
 * @attr: its file in /sys/kernel/mm/lull
 * @policies: the names, indexed by policy; NULL ends the list
 * @policy: the chosen one
 * @apply: makes a policy effective. Calls do not overlap. It may sleep, and it
 *	must leave the kernel correct at each moment of the change.
 */
struct lull_switch {
	struct kobj_attribute attr;
	const char * const *policies;
	int policy;
	void (*apply)(int policy);
};

/**
 * LULL_SWITCH - initialise a struct lull_switch
 * @_name: name of the file, without quotes
 * @_policies: its names, ending in NULL
 * @_policy: the default
 * @_apply: makes a policy effective
 */
#define LULL_SWITCH(_name, _policies, _policy, _apply) {		\
	.attr = __ATTR(_name, 0644, lull_switch_show, lull_switch_store), \
	.policies = (_policies),					\
	.policy = (_policy),						\
	.apply = (_apply),						\
}

/* For apply(): a policy is mostly a few keys. */
static inline void lull_set_key(struct static_key_false *key, bool on)
{
	if (on)
		static_branch_enable(key);
	else
		static_branch_disable(key);
}

int lull_switch_boot(struct lull_switch *sw, const char *name);
int lull_switch_register(struct lull_switch *sw);
int lull_switch_set(struct lull_switch *sw, const char *name);
ssize_t lull_switch_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf);
ssize_t lull_switch_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count);

#endif /* __ARM64_MM_LULL_H */
