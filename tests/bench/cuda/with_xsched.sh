#!/bin/bash
# Runs a command as a client of XSched (github.com/XpuOS/xsched), so that figures can be compared; README.md says how.
#
#     with_xsched.sh FOLDER PRIORITY COMMAND ..    a larger priority is more urgent; FOLDER/bin/xserver must run
set -u
folder=$1 priority=$2
shift 2
export XSCHED_SCHEDULER=GLB XSCHED_AUTO_XQUEUE=ON XSCHED_AUTO_XQUEUE_LEVEL=1 XSCHED_AUTO_XQUEUE_PRIORITY=$priority
# The least urgent queue little ahead, as in XSched's own example.
export XSCHED_AUTO_XQUEUE_THRESHOLD=16 XSCHED_AUTO_XQUEUE_BATCH_SIZE=8
[ "$priority" -gt 0 ] || export XSCHED_AUTO_XQUEUE_THRESHOLD=4 XSCHED_AUTO_XQUEUE_BATCH_SIZE=2
XSCHED_CUDA_LIB=${XSCHED_CUDA_LIB:-$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 (.*x86-64.* => //p' | head -1)}
export XSCHED_CUDA_LIB CUXTRA_CUDA_LIB=$XSCHED_CUDA_LIB
# XSched stands before the driver's library by its name.
export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
