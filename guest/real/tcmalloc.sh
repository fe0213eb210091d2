#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# tcmalloc.sh PROGRAM: compile tcmalloc's test large_heap_fragmentation, as its source package has it, over the packaged
# library.
set -eu
source=/usr/src/lull/gperftools/src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What configure would have written; and, for versions since 2.16, as much of GoogleTest as one test takes.
mkdir "$work/gtest"
cat >"$work/config.h" <<'CONFIG'
#define HAVE_UNISTD_H 1
#define HAVE_STDINT_H 1
#define HAVE_INTTYPES_H 1
#define PERFTOOLS_DLL_DECL
CONFIG
cat >"$work/gtest/gtest.h" <<'GTEST'
#include <stdio.h>
#include <stdlib.h>
#define TEST(suite, name) int main()
#define ASSERT_TRUE(is) do { if (!(is)) { fprintf(stderr, "%s\n", #is); abort(); } } while (0)
#define ASSERT_LT(a, b) ASSERT_TRUE(static_cast<long>(a) < static_cast<long>(b))
GTEST
g++ -O2 -I"$work" -I"$source" -o "$1" "$source/tests/large_heap_fragmentation_unittest.cc" -ltcmalloc_minimal
