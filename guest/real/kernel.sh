#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kernel.sh FOLDER [VARIABLE=VALUE...]: a folder of Linux in its smallest configuration, with as many jobs as there are CPUs,
# in memory. The configuration, and what all folders need, are made outside the window. An object must be what one job alone
# builds.
set -eu
folder=$1
shift
place=/tmp/kernel

say() {
    echo "kernel.sh: $*" >&2
    exit 1
}

build() {
    make -s -C /usr/src/lull/linux O=$place "$@"
}

rm -rf $place
build -j "$(nproc)" tinyconfig prepare "$@"
# How many files that will be: make names a file that it would compile.
files=$(build -n V=1 "$@" "$folder/" | grep -c -- " -c -o $folder/")

/lull/bin/window operations="$files" unit=file -- \
    make -s -j "$(nproc)" -C /usr/src/lull/linux O=$place "$@" "$folder/"

found=$(find "$place/$folder" -name '*.o' ! -name 'built-in*' | wc -l)
[ "$found" -ge "$files" ] || say "$found object files, $files were to be built"
object=$(find "$place/$folder" -name '*.o' ! -name 'built-in*' | sort | head -n 1)
mv "$object" $place/parallel.o
build "$@" "$folder/"
cmp "$object" $place/parallel.o || say "$object is not what one job alone builds"
rm -r $place
