#!/bin/sh
# First program in the virtual machine: mounts the shared folders and continues in the root file system, where writes go to
# memory.
b=/bin/busybox
export PATH=/bin
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in /mod/*; do
    $b insmod "$module" || echo "insmod $module failed"
done
options=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o $options,ro,cache=loose root /lower || echo "no root file system"
$b mount -t tmpfs -o size=75% rw /rw
$b mkdir /rw/upper /rw/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /new || echo "no overlay"
modules=/new/lib/modules/$($b uname -r)
$b mkdir -p /new/host /new/ctl /new/proc /new/sys /new/dev /new/tmp /new/run "$modules"
$b mount -t 9p -o $options,ro,cache=loose mods "$modules"
$b mount -t 9p -o $options host /new/host
$b mount -t 9p -o $options ctl /new/ctl
for folder in proc sys dev; do
    $b mount -o move /$folder /new/$folder
done
exec $b switch_root /new /bin/sh /ctl/init
