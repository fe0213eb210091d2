#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guests of this guest, which has KVM and Debian's QEMU; /lull/vm has what they boot. A guest has half as many vCPUs as
# there are CPUs.
#
# guests.sh PROGRAM ARGS: run a guest program in guests, and report its windows, once for each case KERNEL-VCPUS-GUESTS:
#   KERNEL  stock or lull, of the guests
#   VCPUS   pinned: each vCPU has a CPU of its own. moving: each vCPU goes to the next of all CPUs every 20 ms
#   GUESTS  1, or 2: a second guest of the same kind runs the program all the time, outside of windows
# CASES="a b" in the environment: these cases only.
#
# guests.sh reclaim MIB: page out so much of the memory of a guest that sleeps, in a window
#
# guests.sh host ROUNDS: for the checker, what makes KVM change stage 2: the memory of a busy guest, whose vCPUs move, is paged out;
# it is migrated away, for which its stores are logged, and goes on; a second guest starts, and is killed. In one window
set -eu
place=/tmp/guests
cgroup=/sys/fs/cgroup
results=${LULL_RESULTS:-/dev/stdout}
job=${LULL_JOB:-0}
vcpus_each=$(($(nproc) / 2))

# start NAME FIRST JOB: a guest that does the JOB, in the background; its process is $guest. FIRST: its first CPU
start() {
    mkdir -p "$place/$1/lull"
    echo "$3" >"$place/$1/lull/job"
    (cd "$place/$1" && cat /lull/vm/initramfs && echo lull/job | cpio -o -H newc --quiet) >"$place/$1/initrd"
    : >"$place/$1/console"
    # shellcheck disable=SC2016 # the inner shell expands these
    sh -c 'echo $$ >"$0/cgroup.procs" && exec qemu-system-aarch64 "$@"' "$cgroup" \
        -nodefaults -no-reboot -display none -monitor "${monitor:-none}" -name "$1,debug-threads=on" \
        -machine virt,gic-version=3 -accel kvm -cpu host -smp "$vcpus_each" -m 512 -serial "file:$place/$1/console" \
        -kernel "/lull/vm/$kernel" -initrd "$place/$1/initrd" \
        -append "console=ttyAMA0 panic=-1 oops=panic quiet loglevel=4" </dev/null &
    guest=$!
    case $vcpus in
    pinned) vcpus pid=$guest count=$vcpus_each first="$2" ;;
    moving) vcpus pid=$guest count=$vcpus_each first="$2" move=20 & ;;
    esac
}

# fail TEXT: with what the measured guest printed last
fail() {
    echo "guests.sh: $1; the guest's console ends:" >&2
    tail -n 20 "$place/measured/console" >&2
    exit 1
}

# await NAME TEXT: until a guest prints it
await() {
    until grep -q "$2" "$place/$1/console"; do sleep 0.2; done
}

# stop PROCESS: end a guest
stop() {
    kill "$1"
    wait "$1" || :
}

# Windows have the number of their job. Those of each guest need numbers of their own, and get the job's number back here.
report() {
    sed -n '/^{"job":/{
        s/^{"job":[0-9]*/{"job":'"$job"'/
        s/"case":"\([^"]\)/"case":"'"$1"'\/\1/
        s/"case":""/"case":"'"$1"'"/
        p
    }' "$place/lines" >>"$results"
}

run_case() {
    other=
    if [ "$guests" = 2 ]; then
        start other "$vcpus_each" "export LULL_WITHIN=1; while $*; do :; done"
        other=$guest
        await other '"ready"'
    fi
    start measured 0 "run $((job * 100 + number)) $*"
    wait "$guest" || fail "$case: QEMU ended with status $?"
    if [ "$other" ]; then
        grep -q '"done"' "$place/other/console" && fail "$case: the other guest ended"
        stop "$other"
    fi
    tr -d '\r' <"$place/measured/console" >"$place/lines"
    status=$(sed -n 's/^{"event":"end",.*"status":\([0-9]*\)}$/\1/p' "$place/lines")
    [ "$status" != 77 ] || exit 77
    [ "$status" = 0 ] || fail "$case: the program ended with status '$status'"
    report "$case"
    wait
    rm -rf "$place"
}

# ask COMMAND: of QEMU's monitor
ask() {
    echo "$1" >"$place/monitor.in"
}

# page_out MIB: memory of the guests. What they have read from files goes first, and is no guest's memory
page_out() {
    wanted=$(($(anon_taken) + $1 * 256))
    for _ in $(seq 64); do
        echo 16M >$cgroup/memory.reclaim || :
        [ "$(anon_taken)" -lt "$wanted" ] || return 0
    done
    fail "less than $1 MiB were paged out"
}

# anon_taken: pages of anonymous memory that were paged out so far
anon_taken() {
    sed -n 's/^pgsteal_anon //p' /proc/vmstat
}

# migrate: to nowhere, while the guest runs; then it goes on
migrate() {
    migrated=$(grep -c '^Migration status: completed' "$place/monitor" || :)
    ask 'migrate -d "exec:cat >/dev/null"'
    until [ "$(grep -c '^Migration status: completed' "$place/monitor")" -gt "$migrated" ]; do
        sleep 1
        ask "info migrate"
    done
    ask cont
}

if [ "$1" = rounds ]; then
    kernel=stock vcpus=pinned cgroup=/sys/fs/cgroup/guest
    for _ in $(seq "$2"); do
        page_out 16
        migrate
        start other 0 "program sh -c 'head -c 32M /dev/zero >/tmp/used; echo used; while :; do sleep 0.1; done'"
        other=$guest
        await other '^used'
        page_out 16
        stop "$other"
        # Nothing of the first guest is lost: it still counts.
        rounds=$(grep -c '^round' "$place/measured/console")
        until [ "$(grep -c '^round' "$place/measured/console")" -gt "$rounds" ]; do sleep 0.2; done
    done
    exit
fi

if [ "$1" = host ]; then
    kernel=stock vcpus=moving cgroup=/sys/fs/cgroup/guest monitor=pipe:$place/monitor
    mkdir "$cgroup"
    mkdir -p "$place"
    mkfifo "$place/monitor.in" "$place/monitor.out"
    start measured 0 "program sh -c 'while :; do head -c 16M /dev/zero | tee /tmp/used | cksum; echo round; sleep 0.1; done'"
    measured=$guest
    tr -d '\r' <"$place/monitor.out" >"$place/monitor" &
    await measured '^round'
    window case=host operations="$2" unit=round -- sh "$0" rounds "$2"
    stop "$measured"
    wait
    rm -rf "$place"
    exit
fi

if [ "$1" = reclaim ]; then
    kernel=stock vcpus=pinned cgroup=/sys/fs/cgroup/guest
    mkdir "$cgroup"
    start measured 0 "program sh -c 'head -c $(($2 * 3))M /dev/zero >/tmp/used; echo used; sleep 1000'"
    await measured '^used'
    # What the guest does after it has printed this is over in a moment.
    sleep 1
    window case=idle operations=$(($2 * 256)) unit=page -- sh -c "echo $2M >$cgroup/memory.reclaim"
    stop "$guest"
    rmdir "$cgroup"
    rm -rf "$place"
    exit
fi

all=
for kernel in stock lull; do
    for vcpus in pinned moving; do
        all="$all $kernel-$vcpus-1 $kernel-$vcpus-2"
    done
done
number=0
for case in ${CASES:-$all}; do
    IFS=- read -r kernel vcpus guests <<-END
	$case
	END
    number=$((number + 1))
    run_case "$@"
done
