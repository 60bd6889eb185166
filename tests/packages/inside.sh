#!/usr/bin/env bash
# inside.sh KIND: installs the package on this bare system, tries it, upgrades and removes it, and compares the system's
# files with those before. Each step is shown before it is made; the first that fails ends the run.
set -euo pipefail
kind=$1
package=$(echo /tmp/packages/*)

step() { echo "-- $*"; }
# Files outside of what the package managers and these trials keep for themselves.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /root \
        -o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /usr/lib/sysimage/rpm -o -path /var/log -o -path /var/cache \
        -o -path /var/lib/systemd/deb-systemd-helper-enabled \) -prune -o -print | sort
}
install_package() {
    if [ "$kind" = deb ]; then dpkg --install "$package"; else rpm --install --nodeps "$@" "$package"; fi
}
remove_package() {
    if [ "$kind" = deb ]; then dpkg --purge xsched-ctl; else rpm --erase xsched-ctl; fi
}

# Debian's smallest images leave out manual pages and documents.
rm -f /etc/dpkg/dpkg.cfg.d/*
step "files before"
files >/tmp/before

step "installation"
install_package

step "no library is missing"
ldd "$(command -v xsched-ctl)" /usr/lib/libxsched_shim.so | tee /tmp/ldd
if grep "not found" /tmp/ldd; then exit 1; fi

step "the unit"
systemd-analyze verify /usr/lib/systemd/system/xsched.service /lib/systemd/system/xsched.service 2>/tmp/verify || true
cat /tmp/verify
if grep -i xsched /tmp/verify; then exit 1; fi
systemd-analyze security --offline=yes /usr/lib/systemd/system/xsched.service 2>/dev/null | tail -1 ||
    systemd-analyze security --offline=yes /lib/systemd/system/xsched.service | tail -1

step "the unit's commands"
sed -n 's/^Exec[A-Za-z]*=\([^ ]*\).*/\1/p' /usr/lib/systemd/system/xsched.service /lib/systemd/system/xsched.service \
    2>/dev/null | sort -u | while read -r program; do command -v "$program"; done

step "configuration"
xsched-ctl serve --check
[ -f /etc/xsched/config.toml ]

step "manual and completions"
man xsched-ctl-trace | grep -c . >/dev/null
bash -ec '. /usr/share/bash-completion/completions/xsched-ctl; complete -p xsched-ctl'

step "doctor"
xsched-ctl doctor || [ $? = 69 ]

step "a recording of a HIP program"
cd /tmp/demo
xsched-ctl trace -o run.perfetto -- apps/two_libraries >/dev/null
xsched-ctl report run.perfetto --by library | tee /tmp/report
grep libdemo_blas.so /tmp/report

step "the controller and a program under it"
xsched-ctl serve >/tmp/serve.log 2>&1 &
controller=$!
trap 'kill $controller' EXIT # it is this machine's process
for _ in $(seq 100); do grep -q "sockets in" /tmp/serve.log && break; sleep 0.1; done
xsched-ctl run --priority low --require-controller -- apps/two_libraries >/dev/null
xsched-ctl list
kill "$controller"
wait "$controller"
trap - EXIT

step "upgrade to the same version: a changed configuration stays"
echo "# mine" >>/etc/xsched/config.toml
if [ "$kind" = deb ]; then dpkg --install "$package"; else rpm --upgrade --nodeps --replacepkgs "$package"; fi
tail -1 /etc/xsched/config.toml | grep mine

step "removal leaves nothing"
rm -rf /tmp/demo/run.perfetto
remove_package
# RPM keeps a changed configuration under another name.
if [ "$kind" = rpm ]; then rm /etc/xsched/config.toml.rpmsave; rmdir /etc/xsched; fi
files >/tmp/after
diff /tmp/before /tmp/after
echo "-- passed"
