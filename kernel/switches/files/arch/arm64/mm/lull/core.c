// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the Lull features share: /sys/kernel/mm/lull, and the switches in it.
 */
#define pr_fmt(fmt) "lull: " fmt

#include <linux/container_of.h>
#include <linux/errno.h>
#include <linux/cleanup.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "lull.h"

/* Serialises the changes, and protects lull_kobj. */
static DEFINE_MUTEX(lull_lock);
static struct kobject *lull_kobj;

static struct lull_switch *to_switch(struct kobj_attribute *attr)
{
	return container_of(attr, struct lull_switch, attr);
}

static int find_policy(const struct lull_switch *sw, const char *name)
{
	return __sysfs_match_string(sw->policies, -1, name);
}

/**
 * lull_switch_boot() - take the default from a boot parameter
 * @sw: the switch
 * @name: the parameter's value, NULL when it has none
 *
 * Called long before lull_switch_register(), which makes the choice effective.
 * Not __init, for the tests.
 *
 * Return: 0, or -EINVAL and a message that names the policies there are.
 */
int lull_switch_boot(struct lull_switch *sw, const char *name)
{
	int policy = name ? find_policy(sw, name) : -EINVAL;
	char known[80];
	int len = 0;
	int i;

	if (policy >= 0) {
		sw->policy = policy;
		return 0;
	}

	for (i = 0; sw->policies[i]; i++)
		len += scnprintf(known + len, sizeof(known) - len, " %s",
				 sw->policies[i]);
	pr_err("lull_%s=%s: no such policy, staying with %s; known:%s\n",
	       sw->attr.attr.name, name ?: "", sw->policies[sw->policy], known);
	return -EINVAL;
}

/**
 * lull_switch_register() - apply a switch's policy, and show it in sysfs
 * @sw: the switch
 *
 * The policy is in effect even when the file could not be created.
 *
 * Return: 0, or why there is no file.
 */
int __init lull_switch_register(struct lull_switch *sw)
{
	guard(mutex)(&lull_lock);

	sw->apply(sw->policy);
	if (!lull_kobj)
		lull_kobj = kobject_create_and_add("lull", mm_kobj);
	if (!lull_kobj)
		return -ENOMEM;
	return sysfs_create_file(lull_kobj, &sw->attr.attr);
}

/**
 * lull_switch_set() - change the policy
 * @sw: the switch
 * @name: the policy's name; a newline may follow it
 *
 * Return: 0, or -EINVAL when there is no such policy.
 */
int lull_switch_set(struct lull_switch *sw, const char *name)
{
	int policy = find_policy(sw, name);

	if (policy < 0)
		return policy;

	guard(mutex)(&lull_lock);
	sw->apply(policy);
	WRITE_ONCE(sw->policy, policy);
	return 0;
}

/**
 * lull_switch_show() - the policies, with the chosen one in [brackets]
 * @kobj: /sys/kernel/mm/lull
 * @attr: the switch's file
 * @buf: a page to write to
 *
 * Return: the number of characters written.
 */
ssize_t lull_switch_show(struct kobject *kobj, struct kobj_attribute *attr,
			 char *buf)
{
	const struct lull_switch *sw = to_switch(attr);
	int chosen = READ_ONCE(sw->policy);
	int len = 0;
	int i;

	for (i = 0; sw->policies[i]; i++)
		len += sysfs_emit_at(buf, len, i == chosen ? "%s[%s]" : "%s%s",
				     i ? " " : "", sw->policies[i]);
	len += sysfs_emit_at(buf, len, "\n");
	return len;
}

/**
 * lull_switch_store() - change the policy through sysfs
 * @kobj: /sys/kernel/mm/lull
 * @attr: the switch's file
 * @buf: the policy's name
 * @count: number of characters in @buf
 *
 * Return: @count, or -EINVAL when there is no such policy.
 */
ssize_t lull_switch_store(struct kobject *kobj, struct kobj_attribute *attr,
			  const char *buf, size_t count)
{
	int err = lull_switch_set(to_switch(attr), buf);

	return err ?: count;
}
