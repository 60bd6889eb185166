#!/usr/bin/env bash
# Boots a distribution's kernel under QEMU with AMD's own amdgpu driver on a stand-in GPU, runs one command there, and
# passes its output and exit status on.
#
#   boot.sh [-k SERIES] [-n] [-i] [-r FOLDER] [-m MIB] [-s FOLDER] [-t SECONDS] [-b] [--] COMMAND...
#
#   -k  kernel series: 5.10, 6.1, 6.12 [default], or one of Debian 13's backports, such as 7.2; 5.15 and 6.8 of Ubuntu, if
#       XSCHED_UBUNTU_MIRROR names an archive of it
#   -n  no GPU and no driver: quicker
#   -i  time in the guest goes by its instructions, see below
#   -r  root file system to boot, which has kmod, in place of Debian 12's with ROCm 5.2.3
#   -m  MiB of memory [2048]
#   -s  folder of the host, read-write at /host in the guest
#   -t  stop after this many seconds               -b  get and build everything, and do not boot
#
# Exit status: the command's; 2 if there is no such kernel or it cannot be got; 124 after a timeout; 125 if the virtual machine
# ended without an exit status.
#
# Everything comes from the Debian mirror that apt already uses, and is kept in $XSCHED_VM_DIR, else in the cache
# folder of the user: 2 GB, and 300 MB for each further kernel. The root file system has Debian's libamdhip64 5.2.3 and strace. It is
# shared read-only; the guest writes to memory. The processor is emulated: the machine needs no KVM.
#
# Times in it have no meaning. With -i an instruction takes two nanoseconds, and the host's clock counts only while the guest is idle, at
# the rate 1/FAKEGPU_SLOWER. So a busy host makes it slower without its noticing, and no timeout of the shim or of the controller
# expires for that. Booting takes longer.
set -euo pipefail

series=6.12 root='' memory=2048 share=$PWD timeout=600 build_only=0 has_gpu=1 counting=(thread=multi)
while getopts k:r:m:s:t:bni option; do
    case $option in
    k) series=$OPTARG ;;
    r) root=$(realpath "$OPTARG") ;;
    m) memory=$OPTARG ;;
    s) share=$OPTARG ;;
    t) timeout=$OPTARG ;;
    b) build_only=1 ;;
    n) has_gpu=0 ;;
    i) counting=(thread=single -icount shift=1,sleep=on,align=off) ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

here=$(dirname "$(realpath "$0")")
cache=${XSCHED_VM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/xsched-vm}
mkdir -p "$cache"
share=$(realpath "$share")

say() { echo "vm: $*" >&2; }

# Runs a command with its output in a file, which is printed if the command fails.
quietly() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -20 "$log" >&2; exit 2; }
}

# The mirror of a Debian release in apt's configuration.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $1" | head -n1
}

# The release of a distribution that has the series.
case $series in
5.10) suite=bullseye ;;
5.15) suite=jammy ;;
6.1 | 6.12) suite=bookworm ;;
6.8) suite=noble ;;
*) suite=trixie-backports ;;
esac

# Lines of apt's configuration for the release.
sources() {
    local debian
    debian=$(mirror bookworm)
    case $suite in
    jammy | noble)
        echo "deb [signed-by=$cache/ubuntu.gpg] $XSCHED_UBUNTU_MIRROR $suite main"
        echo "deb [signed-by=$cache/ubuntu.gpg] $XSCHED_UBUNTU_MIRROR $suite-updates main"
        ;;
    *-backports) echo "deb $debian $suite main" ;;
    *) printf 'deb %s main\n' "$debian $suite" "$(mirror bookworm-security) $suite-security" ;;
    esac
}

# A command of apt, with the packages of a release and without those of this machine.
apt_of() {
    local folder=$cache/apt-$1 command=$2
    shift 2
    "$command" -o Dir::State::Lists="$folder/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$folder/cache" \
        -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
        -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}

# Gets a release's list of packages, once for each cache: the names of kernels change with every update.
update_lists() {
    local folder=$cache/apt-$1
    [ -e "$folder/.updated" ] && return
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    cat >"$folder/sources.list"
    apt_of "$1" apt-get update -qq
    touch "$folder/.updated"
}

# The keys of Ubuntu's archive are in a package of Debian's.
get_ubuntu_keys() {
    local folder=$cache/ubuntu-keyring
    [ -s "$cache/ubuntu.gpg" ] && return
    update_lists sid <<<"deb $(mirror bookworm) sid main"
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$folder" && apt_of sid apt-get download -qq ubuntu-keyring >&2)
    dpkg-deb -x "$folder"/*.deb "$folder"
    cp "$folder/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$cache/ubuntu.gpg"
    rm -rf "$folder"
}

# Exact name of the newest kernel of the series; nothing if there is none.
kernel_release() {
    local file=$cache/release.$series of_package='s/.*Depends: linux-image-//p'
    if [ ! -s "$file" ]; then
        case $suite in
        jammy | noble)
            [ -n "${XSCHED_UBUNTU_MIRROR:-}" ] || return 0
            get_ubuntu_keys
            ;;
        esac
        update_lists "$suite" < <(sources)
        case $series in
        6.12) apt_of "$suite" apt-cache depends linux-image-6.12-amd64 | sed -n "$of_package" ;;
        5.15 | 6.8) apt_of "$suite" apt-cache depends linux-image-generic | sed -n "$of_package" ;;
        5.10 | 6.1) apt_of "$suite" apt-cache depends linux-image-amd64 | sed -n "$of_package" ;;
        *)
            apt_of "$suite" apt-cache search --names-only "^linux-image-${series//./\\.}\\.[0-9.]*\\+deb13-amd64$" |
                sed -n 's/^linux-image-\([^ ]*\) .*/\1/p' | sort -V | tail -1
            ;;
        esac | head -1 >"$file"
    fi
    cat "$file"
}

# Unpacks the kernel's packages: $kernel/vmlinux as QEMU boots it, $kernel/lib/modules.
get_kernel() {
    local packages image
    [ -e "$kernel/.done" ] && return
    say "getting kernel $release"
    rm -rf "$kernel"
    mkdir -p "$kernel/deb"
    # Newer packages, and Ubuntu's, have parts.
    packages=$(apt_of "$suite" apt-cache depends "linux-image-$release" |
        sed -n 's/.*Depends: \(linux-\(binary\|modules\)-.*\)/\1/p' | sort -u)
    # shellcheck disable=SC2086
    (cd "$kernel/deb" && apt_of "$suite" apt-get download -qq "linux-image-$release" $packages >&2)
    for package in "$kernel"/deb/*.deb; do
        dpkg-deb -x "$package" "$kernel"
    done
    [ -d "$kernel/lib" ] || mv "$kernel/usr/lib" "$kernel/lib"
    rm -rf "$kernel/deb"
    image=$(find "$kernel" -name 'vmlinuz*' -type f | head -1)
    python3 - "$image" "$kernel/vmlinux" <<'PYTHON'
# The compressed kernel is at payload_offset behind the set-up code: Documentation/arch/x86/boot.rst.
import struct, subprocess, sys

image = open(sys.argv[1], "rb").read()
setup = ((image[0x1F1] or 4) + 1) * 512
offset, length = struct.unpack_from("<II", image, 0x248)
payload = image[setup + offset : setup + offset + length]
tool = ["zstd", "-dcq"] if payload[:4] == b"\x28\xb5\x2f\xfd" else ["xz", "-dc", "--single-stream"]
data = payload[:-4] if tool[0] == "zstd" else payload
kernel = subprocess.run(tool, input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
assert kernel[:4] == b"\x7fELF", "no kernel in the image"
open(sys.argv[2], "wb").write(kernel)
PYTHON
    depmod -b "$kernel" "$release"
    # Decompressing modules in the guest would take much longer.
    modules_of amdgpu "${boot_modules[@]}" >"$kernel/modules"
    sed -n '/\.xz$/p' "$kernel/modules" | xargs -r -P2 -n1 xz -d
    sed -n '/\.zst$/p' "$kernel/modules" | xargs -r -P2 -n1 zstd -dq --rm
    depmod -b "$kernel" "$release"
    touch "$kernel/.done"
}

# Files of modules and their dependencies, in the order of loading.
boot_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
modules_of() {
    local module
    for module in "$@"; do
        modprobe -d "$kernel" -S "$release" --show-depends "$module" 2>/dev/null || true
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

# An initial root file system with what is needed to mount the real one.
make_initrd() {
    local initrd=$kernel/initrd.cpio folder number=10 file
    [ "$initrd" -nt "$0" ] && return
    folder=$(mktemp -d)
    mkdir -p "$folder"/{bin,mod,proc,sys,dev,lower,rw,new}
    cp "$(command -v busybox)" "$folder/bin/busybox"
    ln -s busybox "$folder/bin/sh"
    while read -r file; do
        cp "$file" "$folder/mod/$number-$(basename "$file")"
        number=$((number + 1))
    done < <(modules_of "${boot_modules[@]}")
    cp "$here/initrd-init.sh" "$folder/init"
    chmod +x "$folder/init"
    (cd "$folder" && find . | cpio -o -H newc --quiet) >"$initrd.new"
    mv "$initrd.new" "$initrd" # another machine may just read the old one
    rm -rf "$folder"
}

# The root file system: Debian 12 with its ROCm, 5.2.3.
make_root() {
    local packages=kmod,strace,libamdhip64-5,libhsa-runtime64-1,libhsakmt1,libdrm-amdgpu1
    [ "$(cat "$cache/rootfs/.packages" 2>/dev/null)" = "$packages" ] && return
    say "making a root file system with $packages"
    # Machines that have the old one, of another checkout, end first.
    [ ! -d "$cache/rootfs" ] || flock "$cache/rootfs" rm -rf "$cache/rootfs"
    quietly "$cache/root.log" mmdebstrap -q --variant=minbase --include="$packages" bookworm "$cache/rootfs" \
        "deb $(mirror bookworm) bookworm main" "deb $(mirror bookworm-security) bookworm-security main"
    echo "$packages" >"$cache/rootfs/.packages"
}

# QEMU 10.1 or later supports devices in other processes; Debian 12's is older. The package is unpacked, not installed.
get_qemu() {
    [ -e "$cache/qemu/.done" ] && return
    say "getting a QEMU with devices in other processes"
    rm -rf "$cache/qemu"
    quietly "$cache/qemu.log" mmdebstrap -q --variant=extract \
        --aptopt='APT::Default-Release "trixie-backports"' --include=qemu-system-x86,seabios,libc6 \
        trixie "$cache/qemu" "deb $(mirror bookworm) trixie main" \
        "deb $(mirror bookworm) trixie-backports main"
    touch "$cache/qemu/.done"
}

exec 9>"$cache/lock"
flock 9 # one at a time builds
release=$(kernel_release)
[ -n "$release" ] || { say "no archive has a kernel of series $series"; exit 2; }
kernel=$cache/kernel-$release
get_kernel
make_initrd
[ -n "$root" ] || make_root
root=${root:-$cache/rootfs}
get_qemu
exec 7<"$root"
flock -s 7 # until the machine has ended
flock -u 9
[ $build_only = 0 ] || exit 0

# Files shared between this script and the guest: the command, its exit status, kernel messages.
run=$(mktemp -d "$cache/run.XXXXXX")
exec 8<"$run"
flock 8 # until the machine has ended
mkdir "$run/control"
printf '%s\n' "$*" >"$run/control/command"
cp "$here/guest-init.sh" "$run/control/init"
if [ $has_gpu = 1 ]; then
    python3 "$here/gpu/mkblobs.py" "$run/blobs"
    mv "$run/blobs/fw" "$run/control/firmware"
    python3 "$here/gpu/fakegpu.py" "$run/gpu.sock" "$run/gpu.log" 9>&- &
    gpu=$!
    trap 'kill $gpu 2>/dev/null || true' EXIT
    for _ in $(seq 100); do
        [ -S "$run/gpu.sock" ] && break
        sleep 0.05
    done
fi

libraries=$cache/qemu/usr/lib/x86_64-linux-gnu
loader=("$libraries/ld-linux-x86-64.so.2" --library-path "$libraries")
if [ "${FAKEGPU_SLOWER:-1}" != 1 ]; then
    cc -O1 -shared -fPIC -o "$run/slow.so" "$here/gpu/slow.c"
    loader+=(--preload "$run/slow.so")
fi
qemu=("${loader[@]}" "$cache/qemu/usr/bin/qemu-system-x86_64"
    -L "$cache/qemu/usr/share/qemu" -L "$cache/qemu/usr/share/seabios")
folder() {
    echo "-fsdev local,id=$1,path=$2,security_model=none,multidevs=remap$3 -device virtio-9p-pci,fsdev=$1,mount_tag=$1"
}
# On one line, since QEMU's messages quote it. By itself QEMU gives up a request after 5 s, and takes the late answer for a breach
# of the protocol: the guest loses its GPU. A machine that is busy with other things pauses for longer.
gpu_device='{"driver":"vfio-user-pci","id":"gpu","romfile":"'$run/blobs/vbios.rom'","x-msg-timeout":36000000,'
gpu_device+='"socket":{"type":"unix","path":"'$run/gpu.sock'"}}'
devices=()
[ $has_gpu = 0 ] || devices=(-device "$gpu_device")

# The guest writes into a pipe, whatever standard output is here.
exec 9>&- 3> >(exec cat)
output=$!
status=0
# The words are split on purpose: `folder` prints options.
# shellcheck disable=SC2046
QEMU_MODULE_DIR=$libraries/qemu timeout -k 5 "$timeout" "${qemu[@]}" \
    -M q35,usb=off,graphics=off -accel "tcg,tb-size=512,${counting[0]}" "${counting[@]:1}" -cpu max -m "$memory" -smp 1 \
    -nodefaults -no-user-config -display none -no-reboot \
    -object memory-backend-memfd,id=ram,size="${memory}M",share=on -machine memory-backend=ram \
    -kernel "$kernel/vmlinux" -initrd "$kernel/initrd.cpio" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nopti nokaslr tsc=reliable \
rcupdate.rcu_expedited=1 random.trust_cpu=on firmware_class.path=/ctl/firmware" \
    $(folder root "$root" ,readonly=on) $(folder mods "$kernel/lib/modules/$release" ,readonly=on) \
    $(folder host "$share" "") $(folder ctl "$run/control" "") \
    -device virtio-rng-pci -device virtio-serial-pci \
    -chardev file,id=out,path=/dev/fd/3,append=on -device virtserialport,chardev=out,name=out \
    -serial "file:$run/console.log" "${devices[@]}" \
    </dev/null >/dev/null 2> >(grep -v 'Could not enable error recovery' >&2) || status=$?
exec 3>&-
wait $output

if [ $status = 124 ]; then
    say "timeout after $timeout s; kernel messages: $run/console.log"
    exit 124
fi
status=$(cat "$run/control/status" 2>/dev/null || echo 125)
if [ "$status" = 125 ]; then
    say "the virtual machine ended early; the end of its console:"
    tail -25 "$run/console.log" >&2
fi
# The newest five folders of machines that have ended are kept.
ls -dt "$cache"/run.* | tail -n +6 | while read -r old; do
    ! flock -n "$old" true || rm -rf "$old"
done
exit "$status"
