#!/bin/bash
# The tables of docs/cuda.md, native and ours interleaved. Needs root, an NVIDIA GPU, nvcc, PyTorch with torchvision and transformers.
#
#     tables.sh FOLDER    with xsched-ctl, libxsched_shim.so and libxsched_cuda.so of a release build in FOLDER
#
# TABLES="batch1 batch5 .." chooses. XSCHED=FOLDER adds XSched to some (README.md). Files, such as the one of TABLES=timeline, go to $OUT.
# MODEL_SECONDS is for how long each of several models runs, 54 for a thousand requests of ResNet-18.
set -u
OUT=${OUT:-$PWD}
here=$(cd "$(dirname "$0")" && pwd) built=$(cd "$1" && pwd) work=$(mktemp -d)
ctl=$built/xsched-ctl shim=$built/libxsched_cuda.so
tables=${TABLES:-"batch1 batch5 long overhead bert resnet same serving shares starvation turns cost killed training operators devices"}
seconds=${SECONDS_OF_REQUESTS:-27} model_seconds=${MODEL_SECONDS:-8}
export XSCHED_LOG=$work/shim.log
cd "$work"
nvcc -O2 -arch=sm_90 -o load "$here/load.cu" || exit 1
read -r filling small <<<"$(./load calibrate)"
echo "iterations: $filling $small"

# serve [LINE..]: a controller with these lines in [scheduler]
serve() {
    { echo "[scheduler]"; printf '%s\n' "$@"; } >"$work/config.toml"
    "$ctl" serve --config "$work/config.toml" >>"$work/serve.log" 2>&1 & server=$!
    sleep 2
}
stop() { kill "$server"; wait "$server" 2>/dev/null; }
wants() { [[ " $tables " == *" $1 "* ]]; }

# native COUNT ITERATIONS SECONDS, ours COUNT ITERATIONS SECONDS: an urgent client beside so many batch jobs
native() {
    local jobs=
    for _ in $(seq "$1"); do ./load batch $(($3 + 4)) "$filling" & jobs+=" $!"; done
    sleep 2
    echo "native, $1 batch jobs"
    env -u CUDA_MPS_CLIENT_PRIORITY ./load urgent "$3" "$2"
    wait $jobs
}
ours() {
    local jobs=
    for _ in $(seq "$1"); do "$ctl" run --class low -- ./load batch $(($3 + 4)) "$filling" & jobs+=" $!"; done
    sleep 2
    echo "ours, $1 batch jobs"
    "$ctl" run --class high -- ./load urgent "$3" "$2"
    wait $jobs
}
# The same under XSched, and its server.
theirs() {
    local jobs=
    for _ in $(seq "$1"); do "$here/with_xsched.sh" "$XSCHED" 0 ./load batch $(($3 + 4)) "$filling" & jobs+=" $!"; done
    sleep 2
    echo "XSched, $1 batch jobs"
    "$here/with_xsched.sh" "$XSCHED" 1 ./load urgent "$3" "$2"
    wait $jobs
}
serve_xsched() { "$XSCHED/bin/xserver" HPF 50000 >>"$work/xserver.log" 2>&1 & xserver=$!; sleep 1; }
stop_xsched() { kill -INT "$xserver"; wait "$xserver" 2>/dev/null; }
both() {
    native "$@"
    serve; ours "$@"; stop
    [ -z "${XSCHED:-}" ] || { serve_xsched; theirs "$@"; stop_xsched; }
}
# together_xsched NAME SECONDS WORKLOAD..: under XSched. It does not schedule the null stream.
together_xsched() {
    [ -n "${XSCHED:-}" ] || return 0
    serve_xsched
    python3 "$here/together.py" "$1-xsched" "$2" --xsched "$XSCHED" "${@:3}"
    stop_xsched
}

wants batch1 && { echo "### 8 x 100 us, alone"; ./load urgent 5 "$small"; echo "### 8 x 100 us beside one"; both 1 "$small" "$seconds"; }
wants batch5 && { echo "### 8 x 100 us beside five"; both 5 "$small" "$seconds"; }
wants long && { echo "### 8 x 500 us, alone"; ./load urgent 5 $((5 * small)); echo "### 8 x 500 us beside one"; both 1 $((5 * small)) "${LONG_SECONDS:-6}"; }
wants turns && { echo "### a switch between processes"; for _ in 1 2 3; do ./load turns 4000; ./load turns 4000 threads; done; }
if wants cost; then
    echo "### a launch of an empty kernel, ns: natively, with the shim alone, alone under a controller, and below an idle process"
    for _ in 1 2; do
        ./load cost 1000
        LD_PRELOAD=$shim ./load cost 1000
        serve
        "$ctl" run -- ./load cost 1000
        "$ctl" run --class high -- ./load idle 8 & urgent=$!
        sleep 1
        "$ctl" run --class low -- ./load cost 1000
        wait $urgent
        stop
    done
fi
if wants overhead; then
    echo "### overhead, alone"
    for workload in ${OVERHEAD:-bert decode empty}; do
        python3 "$here/together.py" "overhead-$workload" 12 --shim "$shim" $workload:even $workload:odd:shim
        together_xsched "overhead-$workload" 6 $workload:stream
    done
fi
if wants bert; then
    echo "### BERT in six processes"
    python3 "$here/together.py" bert6 "$model_seconds" bert bert bert bert bert bert
    serve
    python3 "$here/together.py" bert6-ours "$model_seconds" --ctl "$ctl" bert@high bert@high bert@normal bert@normal bert@low bert@low
    stop
    together_xsched bert6 "$model_seconds" bert:stream@high bert:stream@high bert:stream@normal bert:stream@normal bert:stream@low bert:stream@low
fi
# Programs that their host bounds: which settings leave the others something, and what that costs.
# HOSTBOUND="same fair" chooses settings.
if wants hostbound; then
    weights="bert@weight=400 bert@weight=400 bert@weight=200 bert@weight=200 bert@weight=100 bert@weight=100"
    three="bert@high bert@high bert@normal bert@normal bert@low bert@low"
    python3 "$here/together.py" hostbound-alone 6 bert bert
    python3 "$here/together.py" hostbound-native 6 bert bert bert bert bert bert
    while IFS='|' read -r name settings workloads; do
        [[ " ${HOSTBOUND:-$name} " == *" $name "* ]] || continue
        mapfile -t lines < <(tr ';' '\n' <<<"$settings")
        serve "${lines[@]}"
        echo "### six BERT: $name"
        python3 "$here/together.py" "hostbound-$name" 6 --ctl "$ctl" $workloads
        stop
    done <<END
same||bert bert bert bert bert bert
default||$three
linger-20us|linger = "20us"|$three
linger-0|linger = "0s"|$three
starvation-100ms|starvation = "100ms"|$three
starvation-20ms|starvation = "20ms"|$three
fair|policy = "fair"|$weights
fair-linger-0|policy = "fair";linger = "0s"|$weights
slo|policy = "slo"|bert@slo=p90<9ms bert@slo=p90<9ms bert@weight=200 bert@weight=200 bert@weight=100 bert@weight=100
END
fi
if wants resnet; then
    echo "### ResNet-18 beside ResNet-50"
    python3 "$here/together.py" resnet "$model_seconds" r18 r50
    serve
    python3 "$here/together.py" resnet-ours "$model_seconds" --ctl "$ctl" r18@high r50@low
    stop
    together_xsched resnet "$model_seconds" r18:stream@high r50:stream@low
fi
if wants same; then
    echo "### ResNet-18 and ResNet-50 in two threads of a process, without and with priorities of their streams"
    python3 "$here/together.py" same "$model_seconds" same
    python3 "$here/together.py" same-prio "$model_seconds" same:prio
    serve
    python3 "$here/together.py" same-prio-ours "$model_seconds" --ctl "$ctl" same:prio
    stop
fi
# What a training pays below an urgent process without work. BELOW="default ahead" chooses settings.
if wants below; then
    echo "### a training below an urgent process without work"
    python3 "$here/together.py" below-native 6 idle trainer
    for _ in $(seq "${TIMES:-1}"); do
        while IFS='|' read -r name settings classes; do
            [[ " ${BELOW:-default} " == *" $name "* ]] || continue
            mapfile -t lines < <(tr ';' '\n' <<<"$settings")
            serve "${lines[@]}"
            read -r idle training <<<"$classes"
            python3 "$here/together.py" "below-$name" 6 --ctl "$ctl" idle@$idle trainer@$training
            "$ctl" run --class "$idle" -- ./load idle 11 & urgent=$!
            for to in "" null; do
                echo "steps of 600 kernels of 20 us, 5 us of the host's before each ${to:-stream}: $(./load steps 2 $((small / 5)) 5 $to)"
                echo "   $name: $("$ctl" run --class "$training" -- ./load steps 2 $((small / 5)) 5 $to)"
            done
            wait $urgent
            stop
        done <<END
default||high low
ahead|in_flight = "100ms"|high low
ahead1|in_flight = "100ms";preemption = 1|high low
stop|preemption = 1|high low
equal||normal normal
END
    done
fi
if wants serving; then
    # SERVING="server eager server-compile" chooses.
    for kind in ${SERVING:-server eager}; do
        decoder=${kind%-compile} trainer=trainer; [ "$kind" = "$decoder" ] || trainer=trainer:compile
        echo "### a decode server ($kind) beside two trainings"
        python3 "$here/together.py" "serving-$kind-alone" 10 $decoder
        python3 "$here/together.py" "serving-$kind-trainings" 10 $trainer $trainer
        python3 "$here/together.py" "serving-$kind" 10 $decoder $trainer $trainer
        serve
        python3 "$here/together.py" "serving-$kind-ours" 10 --ctl "$ctl" $decoder@high $trainer@low $trainer@low
        stop
    done
fi
if wants timeline; then
    echo "### a timeline of a decode server beside two trainings: $OUT/serving.perfetto"
    serve
    python3 "$here/together.py" serving-traced 14 --ctl "$ctl" server@high trainer@low trainer@low & jobs=$!
    sleep 17
    "$ctl" trace --all --duration 1s -o "$OUT/serving.perfetto" 2>&1 | tail -5
    wait $jobs
    stop
fi
# shares POLICY OPTION VALUE..: batch jobs with these weights or shares
shares() {
    echo "### $1, ${*:2}"
    serve "policy = \"$1\""
    local value number=0 jobs= files=
    for value in "${@:3}"; do
        number=$((number + 1)) files+=" seconds.$number"
        "$ctl" run "$2" "$value" -- ./load batch 12 "$filling" "seconds.$number" & jobs+=" $!"
    done
    sleep 6; "$ctl" list
    wait $jobs
    stop
    python3 "$here/parts.py" $files
}
wants shares && { shares fair --weight 300 100; shares fair --weight 200 100 100; shares partition --share 75 25; }
# Urgent work without end, and a job that waits for its turns.
if wants starvation; then
    for bound in 1s 200ms; do
        echo "### starvation = $bound"
        serve "starvation = \"$bound\""
        "$ctl" run --class high -- ./load batch 20 "$filling" & jobs=$!
        "$ctl" run --class low -- ./load batch 20 "$filling" & jobs+=" $!"
        wait $jobs
        stop
    done
fi
# Calls by the library that makes them, beside a client that always has more urgent work; and what a thread says of its calls.
# rules TEXT: a controller with these rules
rules() {
    printf "%s\n" "$@" >"$work/rules.toml"
    echo "[scheduler]" >"$work/config.toml"
    "$ctl" serve --config "$work/config.toml" --rules "$work/rules.toml" >>"$work/serve.log" 2>&1 & server=$!
    sleep 2
}
if wants rules; then
    for text in 'profile = "default"' 'profile = "compat"'; do
        echo "### products of cuBLAS, $text"
        rules "$text"
        "$ctl" run --class high -- ./load batch 18 "$filling" & urgent=$!
        "$ctl" run --class low -- python3 "$here/products.py" 6 & low=$!
        sleep 13; "$ctl" list --by origin
        wait $low $urgent
        stop
    done
    for domain in "" system; do
        echo "### measurements of Triton beside an urgent client ${domain:+in the domain }$domain"
        serve
        "$ctl" run --class high -- ./load urgent 20 "$small" & urgent=$!
        "$ctl" run --class low -- python3 "$here/tuning.py" $domain
        wait $urgent
        stop
    done
    echo "### natively"
    python3 "$here/tuning.py"
    ./load urgent 20 "$small" & urgent=$!
    python3 "$here/tuning.py"
    wait $urgent
fi
# What rules on whole chains cost: launches by PyTorch, which come through CUDA's shared runtime, below an idle process.
if wants chains; then
    for text in 'profile = "default"' $'[[rule]]\nunder = "libnothing.so"\naction = "never-suspend"' 'profile = "default"'; do
        echo "### ${text//$'\n'/; }"
        rules "$text"
        "$ctl" run --class high -- ./load idle 22 & urgent=$!
        python3 "$here/together.py" chains 5 --ctl "$ctl" empty@low & low=$!
        sleep 8; "$ctl" list --by origin
        wait $low $urgent
        stop
    done
fi
# Under MPS: natively, with MPS's own priorities, and ours.
if wants mps; then
    export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    if nvidia-cuda-mps-control -d; then
        echo "### under MPS, 8 x 100 us beside five"
        ./load turns 4000
        native 5 "$small" "$seconds"
        echo "with MPS's priorities:"
        CUDA_MPS_CLIENT_PRIORITY=1 native 5 "$small" "$seconds"
        serve
        ours 5 "$small" "$seconds" & table=$!
        sleep 6
        "$ctl" list
        "$ctl" doctor --pid "$(pgrep -f 'load batch' | tail -1)" | grep -A9 -i cuda
        wait $table
        stop
        echo "### a decode server beside two trainings under MPS, with its priorities, and ours"
        python3 "$here/together.py" serving-mps 10 server trainer trainer
        python3 "$here/together.py" serving-mps-priorities 10 server trainer:below trainer:below
        serve
        python3 "$here/together.py" serving-mps-ours 10 --ctl "$ctl" server@high trainer@low trainer@low
        stop
        echo quit | nvidia-cuda-mps-control
        tail -n 5 "$CUDA_MPS_LOG_DIRECTORY"/*
    fi
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
fi
if wants devices; then
    echo "### trainings on all devices, with NCCL"
    python3 "$here/devices.py"
    serve
    "$ctl" run --class low -- python3 "$here/devices.py" & jobs=$!
    CUDA_VISIBLE_DEVICES=0 "$ctl" run --class high -- ./load urgent 30 "$small"
    wait $jobs
    stop
    echo "### batch jobs of two classes, each on a device of its own"
    serve
    CUDA_VISIBLE_DEVICES=0 "$ctl" run --class high -- ./load batch 5 "$filling" & jobs=$!
    CUDA_VISIBLE_DEVICES=1 "$ctl" run --class low -- ./load batch 5 "$filling"
    wait $jobs
    stop
fi
if wants operators; then
    echo "### PyTorch's operators"
    for run in native again; do python3 "$here/operators.py" run $run.json "${OPERATORS:-120}" 8; done
    [ -e "$built/switches/libxsched_cuda.so" ] &&
        LD_PRELOAD=$built/switches/libxsched_cuda.so XSCHED_TEST_SUSPEND=random python3 "$here/operators.py" run ours.json "${OPERATORS:-120}" 8 &&
        python3 "$here/operators.py" compare native.json again.json ours.json
fi
if wants killed; then
    echo "### a controller that is killed while a gate is closed"
    serve
    "$ctl" run --class high -- ./load batch 5 "$filling" & urgent=$!
    sleep 1.5
    "$ctl" run --class low -- ./load frees 6 & low=$!
    sleep 2.5
    kill -9 "$server"
    wait $urgent $low
fi
if wants training; then
    echo "### training, 200 steps"
    python3 "$here/together.py" training 1 train
    # A build with the feature test-switches.
    [ -e "$built/switches/libxsched_cuda.so" ] && XSCHED_TEST_SUSPEND=random \
        python3 "$here/together.py" training-suspended 1 --shim "$built/switches/libxsched_cuda.so" train:shim
fi
cat "$work/shim.log"
grep -v audit "$work/serve.log"
