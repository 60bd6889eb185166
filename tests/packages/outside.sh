#!/usr/bin/env bash
# outside.sh ROOT PACKAGES TARGET KIND: runs inside.sh in a system that is thrown away: an overlay in memory above ROOT.
# It runs in a mount namespace of its own.
set -euo pipefail
root=$1 packages=$2 target=$3 kind=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mount --make-rprivate /
scratch=$(mktemp -d)
mount -t tmpfs none "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/system"
mount -t overlay none -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/system"
system=$scratch/system
mount --rbind /proc "$system/proc"
mount --rbind /sys "$system/sys"
mount --rbind /dev "$system/dev"
mount -t tmpfs none "$system/run"
mount -t tmpfs none "$system/tmp"
mkdir -p "$system/tmp/packages" "$system/tmp/demo/apps" "$system/tmp/demo/hip-sim"
cp "$packages"/*."$kind" "$system/tmp/packages"
cp "$here/inside.sh" "$system/tmp"
# A HIP program on the simulated runtime.
cp "$target"/apps/two_libraries "$target"/apps/lib*.so* "$system/tmp/demo/apps"
cp -r "$target/hip-sim/6" "$system/tmp/demo/hip-sim"
exec chroot "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive bash /tmp/inside.sh "$kind"
