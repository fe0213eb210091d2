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

#include <kunit/visibility.h>
#include <linux/init.h>
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

/**
 * LULL_KEY_SWITCH - the whole switch of a feature that is off or on
 * @_name: the feature, without quotes: the file, and lull_<feature>=
 * @_on: the name of the policy that is not "off", and the default
 * @_key: a struct static_key_false that is enabled while it is on
 *
 * Others see the key change when they like: nothing that outlives a look at it
 * may depend on it.
 */
#define LULL_KEY_SWITCH(_name, _on, _key)				\
	static const char * const _name##_policies[] = { "off", _on, NULL }; \
	static void _name##_apply(int policy)				\
	{								\
		lull_set_key(&(_key), policy);				\
	}								\
	VISIBLE_IF_KUNIT struct lull_switch lull_##_name##_switch =	\
		LULL_SWITCH(_name, _name##_policies, true, _name##_apply); \
	static int __init _name##_boot(char *name)			\
	{								\
		return lull_switch_boot(&lull_##_name##_switch, name);	\
	}								\
	early_param("lull_" #_name, _name##_boot);			\
	static int __init _name##_init(void)				\
	{								\
		return lull_switch_register(&lull_##_name##_switch);	\
	}								\
	subsys_initcall(_name##_init)

int lull_switch_boot(struct lull_switch *sw, const char *name);
int lull_switch_register(struct lull_switch *sw);
int lull_switch_set(struct lull_switch *sw, const char *name);
ssize_t lull_switch_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf);
ssize_t lull_switch_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count);

#endif /* __ARM64_MM_LULL_H */
