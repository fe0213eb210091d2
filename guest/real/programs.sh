#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# programs.sh NAME: servers, runtimes of languages and allocators, which flush when they grow, collect garbage, or begin
# and end threads and processes. Each verifies what it made.
set -eu
number=0

window() { # CASE OPERATIONS UNIT COMMAND...
    number=$((number + 1))
    /lull/bin/window case="$1" operations="$2" unit="$3" number=$number -- "${@:4}"
}

# A process for each connection, and a connection for each transaction.
postgres() {
    bin=$(echo /usr/lib/postgresql/*/bin)
    user="setpriv --reuid 65534 --regid 65534 --clear-groups"
    mkdir /tmp/pg
    chown 65534:65534 /tmp/pg
    cd /tmp
    $user "$bin/initdb" -N -A trust -U postgres -D pg >/dev/null
    $user "$bin/pg_ctl" -D pg -l pg/log -o "-k /tmp -c listen_addresses=" -w start >/dev/null
    bench="$user $bin/pgbench -h /tmp -U postgres"
    $bench -q -i -s 1 postgres 2>/dev/null
    window connect 120 transaction $bench -n -C -c 2 -t 60 postgres
    window keep 400 transaction $bench -n -c 2 -t 200 postgres
    sum=$($user "$bin/psql" -h /tmp -U postgres -At -c \
        'select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts) from pgbench_history' postgres)
    $user "$bin/pg_ctl" -D pg -m fast -w stop >/dev/null
    [ "$sum" = "520|t" ]
}

# Garbage of a JVM with one of three collectors, made by a program in JavaScript.
java() {
    command=$(echo /usr/lib/jvm/java-??-*/bin/java)
    for collector in Serial G1 Z; do
        window $collector 12 round "$command" -XX:+Use${collector}GC -Xmx96m -cp /usr/share/java/js.jar \
            org.mozilla.javascript.tools.shell.Main -e 'var sum = 0;
            for (var r = 0; r < 12; r++) {
                var kept = [];
                for (var i = 0; i < 30000; i++) kept.push([i, r, "" + i]);
                sum += kept[77][0];
            }
            if (sum != 924) quit(1);'
    done
}

# Four threads of Node.js, each with a heap of its own.
node() {
    cat >/tmp/node.js <<'END'
const { Worker, isMainThread } = require("worker_threads");
if (isMainThread) {
    for (let i = 0; i < 4; i++)
        new Worker(__filename).on("exit", (code) => { if (code) process.exitCode = 1; });
} else {
    for (let round = 0; round < 40; round++) {
        const kept = [];
        for (let i = 0; i < 1500; i++)
            kept.push(new Array(256).fill(round));
        if (Buffer.alloc(4 << 20, round)[5] !== round || kept[7][9] !== round)
            process.exit(1);
    }
}
END
    window "" 160 round node /tmp/node.js
}

# restic, a program in Go, with many goroutines: it packs files, and what it packed is verified.
go() {
    export RESTIC_PASSWORD=x HOME=/tmp
    restic init -q --no-cache -r /tmp/repo
    window "" 1 backup restic backup -q --no-cache -r /tmp/repo /usr/lib/aarch64-linux-gnu/perl-base /usr/bin
    restic check -q --no-cache --read-data -r /tmp/repo
}

# Threads that allocate and free, with three allocators in place of that of the C library, and with that.
allocators() {
    for library in libc.so.6 libjemalloc.so.2 libmimalloc.so.2 libtcmalloc_minimal.so.4; do
        preload=$(echo /usr/lib/aarch64-linux-gnu/$library)
        [ -e "$preload" ]
        name=${library%%.so*}
        window "${name#lib}" 8000 allocation env LD_PRELOAD="$preload" stress-ng -q --verify --malloc 2 \
            --malloc-pthreads 2 --malloc-ops 8000 --malloc-bytes 1M
    done
}

"$1"
