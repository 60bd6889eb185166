"""Runs workloads of worker.py at the same time, each in a process of its own, and prints their lines.

    together.py NAME SECONDS [--ctl XSCHED_CTL | --shim FILE | --xsched FOLDER] WORKLOAD[:OPTION..][@SCHEDULING] ..

With --ctl each runs under `xsched-ctl run`, with what follows its name: a class, or options such as `weight=400` or
`slo=p99 < 9ms` with commas between them. With --shim those with the option `shim` get it preloaded, without a controller. With
--xsched each runs under XSched of that folder, with the priority of its class (`with_xsched.sh`). The option `below` gives a
workload the lower of MPS's own priorities.
"""

import os
import subprocess
import sys
import tempfile
import time

name, seconds, workloads = sys.argv[1], sys.argv[2], sys.argv[3:]
ctl = shim = xsched = None
if workloads[0] == "--ctl":
    ctl, workloads = workloads[1], workloads[2:]
elif workloads[0] == "--shim":
    shim, workloads = workloads[1], workloads[2:]
elif workloads[0] == "--xsched":
    xsched, workloads = workloads[1], workloads[2:]
folder, here, workers = tempfile.mkdtemp(), os.path.dirname(os.path.abspath(__file__)), []
for index, workload in enumerate(workloads):
    what, _, scheduling = workload.partition("@")
    scheduling = scheduling if "=" in scheduling else f"class={scheduling or 'normal'}"
    what = what.split(":")
    command = [sys.executable, f"{here}/worker.py", what[0], seconds, f"{name}.{index}", folder] + what[1:]
    if ctl:
        options = [word for option in scheduling.split(",") for word in ("--" + option).split("=", 1)]
        command = [ctl, "run"] + options + ["--"] + command
    if xsched:
        priority = {"class=low": "0", "class=normal": "1", "class=high": "2"}[scheduling]
        command = [f"{here}/with_xsched.sh", xsched, priority] + command
    errors = open(f"/tmp/{name}.{index}.err", "w")
    environment = dict(os.environ)
    if shim and "shim" in what:
        environment["LD_PRELOAD"] = shim
    if "below" in what:
        environment["CUDA_MPS_CLIENT_PRIORITY"] = "1"
    workers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True))
begun = time.time()
while len([file for file in os.listdir(folder) if file.startswith("ready")]) < len(workers):
    if any(worker.poll() is not None for worker in workers) or time.time() - begun > 90:
        print(f"== {name}: not ready: {[worker.poll() for worker in workers]}")
        for index, worker in enumerate(workers):
            print(open(f"/tmp/{name}.{index}.err").read()[-600:])
            worker.kill()
        sys.exit(1)
    time.sleep(0.02)
open(f"{folder}/go", "w").close()
print(f"== {name} (ready after {time.time() - begun:.1f} s)")
for index, worker in enumerate(workers):
    try:
        out, _ = worker.communicate(timeout=float(seconds) + 60)
    except subprocess.TimeoutExpired:
        worker.kill()
        out = "timeout"
    print("  ", out.strip() or "no output: " + open(f"/tmp/{name}.{index}.err").read()[-300:], flush=True)
