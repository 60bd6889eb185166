# Second program in the virtual machine: loads the driver, runs the command, writes its exit status to /ctl.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/ TERM=dumb LC_ALL=C.UTF-8
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
ip link set lo up 2>/dev/null

out=/dev/console
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name" 2>/dev/null)" = out ] && out=/dev/${port##*/}
done
if [ -e /ctl/firmware ]; then
    mkdir -p /lib/firmware
    [ -e /lib/firmware/amdgpu ] || ln -s /ctl/firmware/amdgpu /lib/firmware/amdgpu
    modprobe amdgpu cik_support=1 exp_hw_support=1 ip_block_mask=0x1f sched_policy=2 ||
        echo "modprobe amdgpu failed" >$out
fi

cd /host
setsid bash /ctl/command <&- </dev/null >$out 2>&1
echo $? >/ctl/status
dmesg >/ctl/dmesg
sync
echo b >/proc/sysrq-trigger # QEMU ends at a reboot
