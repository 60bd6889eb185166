#!/bin/bash
# CuPy and JAX natively, and of class low beside an urgent client: the same bits, and how much was deferred. Needs root.
#
#     arrays.sh FOLDER    with xsched-ctl, libxsched_shim.so and libxsched_cuda.so of a release build in FOLDER
set -u
here=$(cd "$(dirname "$0")" && pwd) built=$(cd "$1" && pwd) work=$(mktemp -d)
ctl=$built/xsched-ctl
export XSCHED_SOCKET_DIR=$work
cd "$work"
nvcc -O2 -arch=sm_90 -o load "$here/load.cu" || exit 1
read -r _ small <<<"$(./load calibrate)"
for mode in ${MODES:-cupy jax}; do
    echo "### $mode: natively, then beside an urgent client"
    python3 "$here/arrays.py" $mode 4
    "$ctl" serve >serve.log 2>&1 & server=$!
    sleep 2
    "$ctl" run --class high -- ./load urgent 24 "$small" & urgent=$!
    XSCHED_LOG=$work/shim.log "$ctl" run --class low -- python3 "$here/arrays.py" $mode 8 & low=$!
    sleep ${LIST_AFTER:-9}
    "$ctl" list
    wait $low
    cat shim.log; rm -f shim.log
    kill $urgent; wait $urgent 2>/dev/null
    kill $server; wait $server 2>/dev/null
done
