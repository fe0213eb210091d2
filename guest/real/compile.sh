#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# compile.sh [VARIABLE=VALUE...]: Lua, a C project, with as many jobs as there are CPUs, in memory. What was built must
# run, give the right answers, and be what one job alone builds.
set -eu
place=/tmp/compile
rm -rf $place
cp -R /usr/src/lull/lua $place
cd $place/src
files=$(ls -- *.c | wc -l)

/lull/bin/window operations="$files" unit=file -- make -s -j "$(nproc)" posix MYCFLAGS=-O0 "$@"

say() {
    echo "compile.sh: $*" >&2
    exit 1
}

# A program through both that were built: text, tables, closures, coroutines, collection of garbage.
cat >primes.lua <<'END'
local prime, sum = {}, 0
for i = 2, 10000 do prime[i] = true end
for i = 2, 100 do
    for j = prime[i] and i * i or 10001, 10000, i do prime[j] = false end
end
local next_prime = coroutine.wrap(function()
    for i = 2, 10000 do
        if prime[i] then coroutine.yield(i) end
    end
end)
for p in next_prime do sum = sum + p end
local words = {}
for word in ("the answer is"):gmatch("%a+") do words[#words + 1] = word:upper() end
collectgarbage()
print(table.concat(words, " "), sum, string.format("%.3f", math.sqrt(2)), 7 // 2, 1 << 40)
END
./luac -o primes.luac primes.lua
expected="THE ANSWER IS	5736396	1.414	3	1099511627776"
for program in primes.lua primes.luac; do
    [ "$(./lua $program)" = "$expected" ] || say "lua $program gives a wrong answer: $(./lua $program)"
done

cp lvm.o parallel.o
rm lvm.o
make -s posix MYCFLAGS=-O0 "$@" lvm.o
cmp lvm.o parallel.o || say "lvm.o is not what one job alone builds"
cd /
rm -r $place
