# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# Tests that tools/testing/selftests/mm has and its run_vmtests.sh, whose end reads this, does not run on arm64.

# more CATEGORY PROGRAM: run a program that this kernel's tests have, if run_vmtests.sh has not run it
more() {
    if [ -x "$2" ] && ! grep -qwF "run_test $2" "$0"; then
        CATEGORY=$1 run_test "$2"
    fi
}

more sealing ./mseal_test
more sealing ./seal_elf
more droppable ./droppable
more pkey ./protection_keys

# map_hugetlb with pages of 32 MiB, which a pool of its own has. Linux 7.3 has no such program.
if [ -x ./map_hugetlb ] && test_selected "hugetlb"; then
    pool=/sys/kernel/mm/hugepages/hugepages-32768kB/nr_hugepages
    echo 0 >/proc/sys/vm/nr_hugepages
    echo 2 >$pool
    CATEGORY="hugetlb" run_test ./map_hugetlb 64 25
    echo 0 >$pool
fi
