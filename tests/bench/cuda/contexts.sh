#!/bin/bash
# Several contexts, doctor, the Python package and the tracer on a real GPU, in one table. Needs root; nvcc or cc; PyTorch for its part.
#
#     contexts.sh KIT
#
# KIT has xsched-ctl, libxsched_shim.so and libxsched_cuda.so of a release build. PARTS="facts contexts beyond doctor python traced" chooses. PYTHON names the interpreter with PyTorch.
# SERVE_OPTIONS go to `serve`. LIBCUDA, RUN_PATH: another libcuda to link, for a try on a simulated one. It takes 140 s. Everything it said is in $OUT.
set -u
here=$(cd "$(dirname "$0")" && pwd) kit=$(cd "$1" && pwd)
tests=$(cd "$here/../.." && pwd) apps=$tests/apps/cuda package=$tests/../shim/python/src
ctl=$kit/xsched-ctl python=${PYTHON:-python3} parts=${PARTS:-"facts contexts beyond doctor python traced"}
OUT=${OUT:-$(mktemp -d)} work=$(mktemp -d)
mkdir -p "$OUT"
export XSCHED_SOCKET_DIR=$work PYTHONPATH=$package${PYTHONPATH:+:$PYTHONPATH} XSCHED_LOG=$OUT/shim.log
table=$OUT/table.txt
: >"$table" >"$XSCHED_LOG"
row() { printf '%-58s %s\n' "$1" "$2" | tee -a "$table"; }
head_() { printf '\n## %s\n' "$1" | tee -a "$table"; }
wants() { [[ " $parts " == *" $1 "* ]]; }
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
cd "$work" || exit 1

libcuda=${LIBCUDA:-$(ldconfig -p | awk '/libcuda\.so\.1/ && /x86-64/ {print $NF; exit}')}
for program in "$here/facts.c" "$apps/cuda_client.c" "$apps/cuda_contexts.c"; do
    ${CC:-cc} -O2 -pthread -o "$(basename "$program" .c)" "$program" -I"$apps" -I"$tests/cuda-sim/include" "$libcuda" ${RUN_PATH:+-Wl,-rpath,$RUN_PATH} || exit 1
done

serve() { "$ctl" serve ${SERVE_OPTIONS:-} "$@" >>"$OUT/serve.log" 2>&1 & server=$!; for _ in $(seq 50); do [ -S "$work/shim.sock" ] && break; sleep 0.1; done; }
stop() { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
trap 'kill $(jobs -p) 2>/dev/null' EXIT

# start NAME COMMAND..: a client that waits for a line, which `go NAME..` writes to all at once. Its output is in NAME.out.
start() {
    local name=$1; shift
    mkfifo "$name.in"
    timeout 60 "$@" <"$name.in" >"$name.out" 2>>"$OUT/clients.log" &
    pids[$name]=$!
    exec {keep}>"$name.in"
    keeps[$name]=$keep
    for _ in $(seq 200); do grep -q ready "$name.out" 2>/dev/null && return; sleep 0.05; done
    echo "$name is not ready" | tee -a "$table"
}
go() { local name; for name; do echo >&"${keeps[$name]}"; done; }
finish() {
    local name
    for name; do
        wait "${pids[$name]}" || row "$name: exit status" $?
        eval "exec ${keeps[$name]}>&-"
        rm -f "$name.in"
    done
}
value() { awk -v key="$2" '$1 == key {print $2}' "$1.out"; }
declare -A pids keeps

# Iterations of a kernel of 1 ms and of 100 us, by one that is long enough to be timed. A simulated one takes its argument.
us=$(./cuda_contexts time 100000 264 | awk '{print $2}')
us=$(awk -v us="$us" 'BEGIN {print (us > 0 ? us : 1)}')
long=$(awk -v us="$us" 'BEGIN {n = 100000 * 1000 / us; printf "%d", (us > 90000 ? 1000 : n)}')
short=$((long / 10))
row "a kernel of 100,000 iterations, us; iterations of 1 ms" "$us; $long"

if wants facts; then
    head_ "facts of the driver (0: success, 712: already registered)"
    ./facts >facts.out 2>>"$OUT/clients.log" || row "facts: exit status" $?
    tee -a "$table" <facts.out
fi

# beside RUN SECONDS CONTEXTS..: kernels of each context beside a more urgent process that launches all the time
beside() {
    local how=$1 seconds=$2 urgent=() low=(); shift 2
    [ "$how" = ours ] && urgent=("$ctl" run --class high --) low=("$ctl" run --class low --)
    start low "${low[@]}" ./cuda_contexts run "$seconds" "$long" 264 "$@"
    if [ "$how" != alone ]; then
        start urgent "${urgent[@]}" ./cuda_client batch "$seconds" "$long" 264
        go low urgent
        finish urgent low
    else
        go low
        finish low
    fi
    local text= context
    for context in "$@"; do text+="$context $(value low "kernels_$context")  "; done
    [ "$how" = alone ] || text+="| urgent $(value urgent kernels)"
    row "kernels of 1 ms in $seconds s, $how" "$text"
}
# requests HOW CONTEXTS..: times of an urgent process's requests of 8 kernels of 100 us beside these contexts
requests() {
    local how=$1 urgent=() low=(); shift
    [ "$how" = ours ] && urgent=("$ctl" run --class high --) low=("$ctl" run --class low --)
    [ "$how" = alone ] || start low "${low[@]}" ./cuda_contexts run 4 "$long" 264 "$@"
    start urgent "${urgent[@]}" ./cuda_client urgent 120 8 "$short" 25000
    if [ "$how" = alone ]; then
        go urgent
        finish urgent
    else
        go low urgent
        finish urgent low
    fi
    row "requests of 8 x 100 us, us, mean / p99, $how" "$(value urgent mean) / $(value urgent p99)"
}
last_summary() { awk '/^xsched-cuda: process/ {text = ""} {text = text $0 "\n"} END {printf "%s", text}' "$XSCHED_LOG"; }
gates() { grep -E 'gates|pages|contexts beyond|panics|troubles' "$XSCHED_LOG" | sort | uniq -c | sed 's/^/    /' | tee -a "$table"; }

if wants contexts; then
    head_ "two contexts and a green one in one process, beside a more urgent process"
    places="primary second green"
    ./cuda_contexts run 0.1 "$long" 264 green </dev/null >/dev/null 2>>"$OUT/clients.log" || { row "green contexts" "none here"; places="primary second third"; }
    beside alone 3 $places
    beside native 3 $places
    requests alone
    requests native $places
    serve; : >"$XSCHED_LOG"
    beside ours 3 $places
    requests ours $places
    row "gates and troubles in the summaries (number of processes)" ""
    gates
    if nvidia-smi -L 2>/dev/null | grep -q 'GPU 1'; then
        : >"$XSCHED_LOG"
        beside ours 3 primary device1
        gates
    fi
    stop
fi

if wants beyond; then
    head_ "ten contexts: more than a page has room for"
    serve; : >"$XSCHED_LOG"
    requests ours a b c d e f g h i j
    gates
    : >"$XSCHED_LOG"
    requests ours primary resets second
    row "the same with a context that is destroyed and made again" ""
    gates
    stop
fi

# doctor_of TITLE PID
doctor_of() {
    head_ "$1"
    "$ctl" doctor --pid "$2" 2>&1 | tee -a "$table"
}
if wants doctor; then
    serve
    start low "$ctl" run --class low -- ./cuda_contexts run 3 "$long" 264 primary second
    start urgent "$ctl" run --class high -- ./cuda_client urgent 40 8 "$short" 25000
    go low urgent
    sleep 1.2
    doctor_of "doctor --pid: a program without CUDA's runtime" "$(pgrep -n -x cuda_contexts)"
    finish urgent low
    if "$python" -c 'import torch; torch.zeros(1, device="cuda")' 2>>"$OUT/clients.log"; then
        "$ctl" run --class low -- "$python" "$here/levels.py" waits 5 >torch.out 2>>"$OUT/clients.log" & torch=$!
        for _ in $(seq 300); do grep -q ready torch.out && break; sleep 0.1; done
        start urgent "$ctl" run --class high -- ./cuda_client urgent 40 8 "$short" 25000
        go urgent; finish urgent
        doctor_of "doctor --pid: PyTorch" "$(pgrep -n -f 'levels.py waits')"
        wait $torch
        "$python" "$here/levels.py" waits 4 >torch.out 2>>"$OUT/clients.log" & torch=$!
        for _ in $(seq 300); do grep -q ready torch.out && break; sleep 0.1; done
        doctor_of "doctor --pid: PyTorch without the shim" $torch
        wait $torch
    else
        row "PyTorch" "none here"
    fi
    stop
fi

if wants python && "$python" -c 'import torch; torch.zeros(1, device="cuda")' 2>>"$OUT/clients.log"; then
    head_ "Python: the same work at three levels, begun at one time; seconds until it is done"
    for how in native ours; do
        [ $how = ours ] && serve
        command=(); [ $how = ours ] && command=("$ctl" run --)
        [ $how = native ] && command=(env "LD_PRELOAD=$kit/libxsched_cuda.so")  # hints without a controller
        begin=$(awk -v now="$(date +%s.%N)" 'BEGIN {printf "%.3f", now + 9}')
        jobs_=
        for level in low normal high; do
            "${command[@]}" "$python" "$here/levels.py" process $level "$begin" 4000 >"process_$level.out" 2>>"$OUT/clients.log" & jobs_+=" $!"
        done
        wait $jobs_
        row "three processes, $how" "$(cat process_low.out process_normal.out process_high.out | awk '{printf "%s %s (late %s)  ", $2, $6, $4}')"
        [ $how = native ] && continue
        "${command[@]}" "$python" "$here/levels.py" streams 2500 >streams.out 2>>"$OUT/clients.log"
        row "three streams of one process, $how" "$(awk '/^stream/ {printf "%s %s  ", $2, $6}' streams.out)"
        grep refused streams.out | sed 's/^/    /' | tee -a "$table"
        [ $how = ours ] && stop
    done
fi

if wants traced && "$python" -c 'import torch; torch.zeros(1, device="cuda")' 2>>"$OUT/clients.log"; then
    head_ "launches of aten, nvrtc, Triton and graphs: what CUPTI counts, and what the tracer has seen"
    "$ctl" trace -o traced.perfetto -- "$python" "$here/levels.py" launches >launches.out 2>"$OUT/trace.log"
    grep -E 'cupti|without' launches.out | tee -a "$table"
    "$ctl" report --by library,kernel traced.perfetto >"$OUT/report.txt" 2>&1
    grep -E 'launches|nvrtc|triton|seen_by' "$OUT/report.txt" | cut -c1-150 | head -14 | tee -a "$table"
fi
echo
echo "everything: $OUT"
