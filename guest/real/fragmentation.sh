#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# tcmalloc's own test, as published (system B): three times 20 000 large blocks, allocated and freed. It ends well when
# the heap has not grown beyond what was in use.
set -eu
program=/tmp/large_heap_fragmentation
tcmalloc.sh $program
/lull/bin/window operations=60000 unit=block -- $program
rm $program
