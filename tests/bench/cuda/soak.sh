#!/bin/bash
# Kills or stops one of a controller, an urgent client and two batch jobs, at a random moment; the others must end as they should.
# Needs root, an NVIDIA GPU and nvcc.
#
#     soak.sh FOLDER [ROUNDS]    with xsched-ctl, libxsched_shim.so and libxsched_cuda.so of a release build in FOLDER
set -u
here=$(cd "$(dirname "$0")" && pwd) built=$(cd "$1" && pwd) rounds=${2:-100} work=$(mktemp -d)
ctl=$built/xsched-ctl
export XSCHED_SOCKET_DIR=$work XSCHED_LOG=$work/shim.log
cd "$work"
nvcc -O2 -arch=sm_90 -o load "$here/load.cu" || exit 1
read -r filling small <<<"$(./load calibrate)"
names=(controller urgent normal low) signals=(KILL STOP)
# Of the work of each: it ends after 2 s if nothing happens to it.
seconds=2 limit=8
declare -A rounds_of=() failed_of=()
longest=0
RANDOM=${SEED:-1}

server=
serve() {
    "$ctl" serve >>serve.log 2>&1 & server=$!
    for _ in $(seq 50); do [ -S "$work/shim.sock" ] && return; sleep 0.1; done
}
for round in $(seq "$rounds"); do
    [ -n "$server" ] || serve
    timeout -s KILL $limit "$ctl" run --class low -- ./load batch $seconds "$filling" >low.out 2>&1 & low=$!
    timeout -s KILL $limit "$ctl" run --class normal -- ./load batch $seconds "$filling" >normal.out 2>&1 & normal=$!
    timeout -s KILL $limit "$ctl" run --class high -- ./load urgent $seconds "$small" >urgent.out 2>&1 & urgent=$!
    sleep 0.$((RANDOM % 9 + 1)); sleep 0.$((RANDOM % 9 + 1))
    victim=${names[RANDOM % 4]} signal=${signals[RANDOM % 2]}
    pid=$server
    if [ $victim != controller ]; then
        # Below `timeout` and `xsched-ctl run`.
        pid=${!victim}
        while child=$(pgrep -P "$pid" | head -1) && [ -n "$child" ]; do pid=$child; done
    fi
    kill -$signal "$pid" 2>/dev/null
    begun=$(date +%s%N) bad=
    for name in urgent normal low; do
        [ $name = $victim ] && continue
        wait "${!name}" || bad+=" $name: status $?, $(tail -c 200 $name.out);"
        took=$((($(date +%s%N) - begun) / 1000000))
        [ $took -gt $longest ] && longest=$took
    done
    kill -KILL "$pid" 2>/dev/null
    if [ $victim = controller ]; then wait "$server" 2>/dev/null; server=; else wait "${!victim}" 2>/dev/null; fi
    rounds_of["$victim $signal"]=$((${rounds_of["$victim $signal"]:-0} + 1))
    if [ -n "$bad" ]; then
        failed_of["$victim $signal"]=$((${failed_of["$victim $signal"]:-0} + 1))
        echo "round $round, $victim $signal:$bad"
    fi
done
[ -n "$server" ] && kill "$server"
for kind in "${!rounds_of[@]}"; do echo "$kind: ${rounds_of[$kind]} rounds, ${failed_of[$kind]:-0} failed"; done | sort
echo "the others ended at most $longest ms after it, with work for up to $seconds s left"
[ ${#failed_of[@]} = 0 ]
