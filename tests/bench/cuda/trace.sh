#!/bin/bash
# On a machine with an NVIDIA GPU, as root: what `xsched-ctl trace` records of small runs beside what CUPTI counts, which
# libraries made the launches, and what recording adds to a launch.
#
#     tests/bench/cuda/trace.sh XSCHED_CTL FOLDER
#
# FOLDER gets the recordings. nvcc, and a python3 with PyTorch, torchvision, Triton, CuPy and JAX, are needed.

set -u
ctl=$(realpath "$1") out=$(realpath "$2") here=$(dirname "$(realpath "$0")")
cd "$here" || exit 1

# Minimal systems do not mount it.
[ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
uname -r
"$ctl" doctor

echo "== launches"
for mode in ${MODES:-eager half compile graph triton cupy jax}; do
    timeout 100 "$ctl" trace -o "$out/$mode.perfetto.gz" -- python3 trace_workload.py "$mode" \
        > "$out/$mode.cupti.json" 2> "$out/$mode.txt" || echo "$mode: status $?"
    "$ctl" report --json --by library,api,kernel "$out/$mode.perfetto.gz" > "$out/$mode.report.json"
    grep -E "incomplete|CUDA calls" "$out/$mode.txt"
done
python3 trace_compare.py "$out"
echo "== calling libraries, by the compiler's unwinder and by trace"
cc -O2 -shared -fPIC -o "$out/trace_callers.so" trace_callers.c
for mode in ${MODES:-eager half compile graph triton cupy jax}; do
    rm -f "$out/$mode.callers.txt"
    CALLERS=$out/$mode.callers.txt timeout 100 "$ctl" trace --api launch -o "$out/callers.perfetto.gz" -- \
        env LD_PRELOAD="$out/trace_callers.so" python3 trace_workload.py "$mode" 2> "$out/$mode.callers.log" || echo "$mode: status $?"
    "$ctl" report --json --by library "$out/callers.perfetto.gz" > "$out/$mode.callers.json"
    echo "$mode: $(python3 trace_callers.py "$out/$mode.callers.json" "$out/$mode.callers.txt")"
done
[ -n "${ONLY_LAUNCHES:-}" ] && exit
echo "== eager"
head -60 "$out/eager.txt"

echo "== cost: host time of a launch, median and least, ns"
nvcc -O2 -arch=native -o "$out/trace_cost" trace_cost.cu
for round in 1 2 3 4 5; do
    echo "alone $("$out/trace_cost")"
    echo "traced $("$ctl" trace -o "$out/cost.perfetto" -- "$out/trace_cost" 2> "$out/cost.txt")"
    grep -E "incomplete" "$out/cost.txt"
    echo "traced, callers only $("$ctl" trace --depth 0 -o "$out/cost.perfetto" -- "$out/trace_cost" 2> "$out/cost.txt")"
done

echo "== a process that runs already"
python3 trace_loop.py & loop=$!
sleep 10
timeout 60 "$ctl" attach --pid $loop --duration 3s --interval 10
kill $loop

echo "== cost of CUPTI, by torch.profiler"
for round in 1 2; do
    echo "PyTorch: alone, under CUPTI $(python3 trace_profiler.py)"
    echo "PyTorch: traced, under CUPTI and traced $("$ctl" trace -o "$out/cost.perfetto" -- python3 trace_profiler.py 2> "$out/cost.txt")"
done
rm -f "$out/trace_cost" "$out/cost.perfetto"
