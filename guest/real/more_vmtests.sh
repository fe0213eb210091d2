# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
# Tests that tools/testing/selftests/mm has and its run_vmtests.sh, whose end reads this, does not run on arm64.

CATEGORY="sealing" run_test ./mseal_test
CATEGORY="sealing" run_test ./seal_elf
CATEGORY="droppable" run_test ./droppable
CATEGORY="pkey" run_test ./protection_keys

# map_hugetlb with pages of 32 MiB, which a pool of its own has
if test_selected "hugetlb"; then
    pool=/sys/kernel/mm/hugepages/hugepages-32768kB/nr_hugepages
    echo 0 >/proc/sys/vm/nr_hugepages
    echo 2 >$pool
    CATEGORY="hugetlb" run_test ./map_hugetlb 64 25
    echo 0 >$pool
fi
