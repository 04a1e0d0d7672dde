#!/usr/bin/env bash
# Installs the packages of `make deb` in a clean Debian of this release, runs the demo, starts the units under a real systemd, and purges all
# of it but what is somebody else's. Needs root and systemd-nspawn.
#
# usage: packages/test.sh ROOT      a root of debootstrap with systemd, dbus and curl (`make container-root`); it is changed
set -euo pipefail
[ $# = 1 ] && [ -x "$1/usr/lib/systemd/systemd" ] || { sed -n 2,6p "$0" >&2; exit 2; }
root=$(realpath "$1")
cd "$(dirname "$0")/.."
debs=$(realpath target/debian)
in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# Files that a package may have left. What apt and dpkg keep of their own is theirs.
files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./packages \
    -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt -o -path ./var/lib/dpkg \
    -o -path ./etc/ld.so.cache -o -name '*-' -path './etc/*' \) -prune -o -print | sort)
}

rm -rf "$root/packages" && mkdir "$root/packages"
cp "$debs"/vernier_*.deb "$debs"/vernier-plugin_*.deb packages/test.json "$root/packages/"
cp /etc/resolv.conf "$root/etc/resolv.conf"
in_root apt-get update -q >/dev/null
mount -t proc proc "$root/proc"
# EAL reads from it which CPUs there are.
mount -t sysfs -o ro sysfs "$root/sys"
trap 'umount "$root/proc" "$root/sys"' EXIT
# Libraries that others share stay with whoever installs next: they come first, and are no part of the comparison.
in_root sh -c 'apt-get satisfy -y -q --no-install-recommends "$(dpkg-deb -f /packages/vernier_*.deb Depends)"' >/dev/null 2>&1
in_root apt-get install -y -q --no-install-recommends openvswitch-switch-dpdk >/dev/null 2>&1
in_root update-alternatives --quiet --set ovs-vswitchd /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk
# The datapath of the kernel, which is not asked for here, may not be there to load.
[ -e /sys/module/openvswitch ] || printf '#!/bin/sh\n' > "$root/usr/share/openvswitch/scripts/ovs-kmod-ctl"
# Somebody else's, who was there first.
in_root useradd --system --no-create-home vernier-probe
files > "$root/packages/before"

echo "== install"
in_root sh -c 'apt-get install -y -q --no-install-recommends /packages/*.deb' > "$root/packages/install.log" 2>&1 ||
  { tail -20 "$root/packages/install.log" >&2; fail "apt install"; }
for file in usr/bin/vernierd usr/bin/vernier usr/bin/vernier-station usr/bin/vernier-probe usr/lib/systemd/system/vernierd.service \
  usr/lib/systemd/system/vernier-station.service usr/lib/systemd/system/vernier-probe.service \
  usr/lib/udev/rules.d/60-vernier.rules usr/lib/vernier/vfio-is-network usr/lib/vernier/take-back \
  usr/share/doc/vernier/bills/daemon.cdx.json usr/share/doc/vernier-plugin/bills/plugin.cdx.json \
  usr/share/vernier/vernier.schema.json usr/share/vernier/dashboards/fleet.json usr/share/vernier/dashboards/alerts.yml \
  usr/share/bash-completion/completions/vernier usr/lib/vernier/librte_vernier.so; do
  [ -s "$root/$file" ] || fail "/$file is missing"
done
# Minimal Debian leaves out manuals; that dpkg knows them is enough there.
in_root dpkg -L vernier | grep /usr/share/man/man8/vernierd.8 >/dev/null || fail "no manual of vernierd"
for user in vernier vernier-station vernier-probe; do
  in_root id "$user" >/dev/null || fail "no user $user"
  [ "$(in_root stat -c '%U:%G %a' "/etc/$user")" = "root:$user 750" ] || fail "/etc/$user is not for its user alone"
done

echo "== demo: vernierd without a configuration, and the same program as \`make run\` starts it"
in_root vernierd --duration 5 --summary-json /packages/summary.json > "$root/packages/demo.log" 2>&1 ||
  { tail -20 "$root/packages/demo.log" >&2; fail "the demo"; }
target/release/vernierd --duration 5 --summary-json "$root/packages/built.json" > "$root/packages/built.log" 2>&1 ||
  { tail -20 "$root/packages/built.log" >&2; fail "the demo of target/release"; }
python3 - "$root/packages/summary.json" "$root/packages/built.json" <<'PYTHON'
import json, sys

def means_us(file):
    segments = json.load(open(file))["snapshot"]["segments"]
    totals = {f"{s['ingress']} to {s['egress']} ({s['class']})": s["total"] for s in segments}
    return {
        name: total["delay_sum_s"] / total["counts"]["received_packets"] * 1e6
        for name, total in totals.items()
        if total["counts"]["received_packets"] > 1000
    }

packaged, built = map(means_us, sys.argv[1:])
assert len(packaged) >= 2 and packaged.keys() == built.keys(), (packaged, built)
for name, mean_us in packaged.items():
    print(f"   {name}: mean {mean_us:.1f} us, as built {built[name]:.1f} us")
    # Queues of the demo are of virtual links: their delays depend little on the machine.
    assert abs(mean_us / built[name] - 1) < 0.25, name
PYTHON

echo "== unit, under systemd"
install -o root -g "$(in_root id -g vernier)" -m 640 packages/test.json "$root/etc/vernier/vernier.json"
umount "$root/proc" "$root/sys" && trap - EXIT
# EAL asks /sys/module whether there is VFIO.
systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit --machine=vernier-test --private-network --bind-ro=/sys/module \
  --capability=CAP_NET_ADMIN,CAP_IPC_LOCK,CAP_NET_BIND_SERVICE --console=pipe < /dev/null > "$root/packages/boot.log" 2>&1 &
nspawn=$!
leader=
pages=
stop() { [ -z "$pages" ] || echo "$pages" > /proc/sys/vm/nr_hugepages; [ -n "$leader" ] && kill -s RTMIN+4 "$leader" 2>/dev/null; for _ in $(seq 300); do kill -0 $nspawn 2>/dev/null || return 0; sleep 0.1; done; kill $nspawn; }
trap stop EXIT
inside() { nsenter --target "$leader" --mount --root --wd --uts --ipc --net --pid env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
for _ in $(seq 300); do
  leader=$(pgrep -P $nspawn | head -1 || true)
  if [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then break; fi
  kill -0 $nspawn 2>/dev/null || { tail -20 "$root/packages/boot.log" >&2; fail "systemd did not boot"; }
  sleep 0.2
done
inside systemctl start vernierd || { inside journalctl -u vernierd --no-pager | tail -20 >&2; fail "the unit"; }
[ "$(inside systemctl is-active vernierd)" = active ] || fail "the unit is not active"
began=$(inside systemctl show vernierd -p ExecMainStartTimestampMonotonic --value)
ready=$(inside systemctl show vernierd -p ActiveEnterTimestampMonotonic --value)
echo "   up after $(((ready - began) / 1000)) ms, as $(inside stat -c %U "/proc/$(inside systemctl show vernierd -p MainPID --value)")"
for _ in $(seq 100); do inside curl -sf http://127.0.0.1:9464/readyz >/dev/null && break; sleep 0.1; done
inside curl -sf http://127.0.0.1:9464/metrics | grep '^vernier_segment_packets_total{' >/dev/null || fail "no metrics"
inside vernier segments | sed 's/^/   /'
inside systemctl reload vernierd || fail "reload"
inside systemctl stop vernierd || fail "stop"
# A configuration that cannot start: exit code 2, and no second try.
echo '{ "ports": [{ "name": "a", "device": "sinc" }] }' > "$root/etc/vernier/vernier.json"
if inside systemctl start vernierd 2>/dev/null; then fail "a broken configuration started"; fi
[ "$(inside systemctl show vernierd -p NRestarts --value)" = 0 ] || fail "systemd tried a broken configuration again"
[ "$(inside systemctl show vernierd -p ExecMainStatus --value)" = 2 ] || fail "a broken configuration did not end with 2"

echo "== units of the prober and the station"
echo '{ "reflector": { "listen": ["127.0.0.1"] } }' > "$root/etc/vernier-probe/probe.json"
echo '{ "nats": { "servers": ["nats://127.0.0.1:4222"] } }' > "$root/etc/vernier-station/station.json"
inside systemctl start vernier-probe vernier-station || { inside journalctl -u vernier-probe -u vernier-station --no-pager | tail -20 >&2; fail "units"; }
for _ in $(seq 100); do inside curl -sf http://127.0.0.1:9465/healthz >/dev/null && break; sleep 0.1; done
for unit in vernier-probe:0000000000000400 vernier-station:0000000000000000; do
  name=${unit%:*}
  process=$(inside systemctl show "$name" -p MainPID --value)
  [ "$(inside systemctl is-active "$name")" = active ] || fail "$name is not active"
  [ "$(inside stat -c %U "/proc/$process")" = "$name" ] || fail "$name runs as another user"
  [ "$(inside sed -n 's/^CapEff:\t//p' "/proc/$process/status")" = "${unit#*:}" ] || fail "$name has other capabilities"
done
inside vernier-probe 127.0.0.1 --count 3 | sed -n '1s/^/   /p' || fail "no answer at port 862"
inside systemctl stop vernier-probe vernier-station || fail "stop of units"

echo "== Open vSwitch's unit, with the plugin as its README.Debian says"
options='-m 128 --no-pci'
extra() { inside ovs-vsctl get Open_vSwitch . other_config:dpdk-extra; }
# Open vSwitch takes hugepages and nothing else.
pages=$(cat /proc/sys/vm/nr_hugepages)
echo $((pages + 128)) > /proc/sys/vm/nr_hugepages
inside systemctl start openvswitch-switch || { inside journalctl -u ovs-vswitchd --no-pager | tail -20 >&2; fail "Open vSwitch"; }
inside ovs-vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:dpdk-extra="$options"
inside vernier plugin-args --apply >/dev/null || fail "vernier plugin-args --apply"
inside vernier plugin-args --remove >/dev/null || fail "vernier plugin-args --remove"
[ "$(extra)" = "\"$options\"" ] || fail "dpdk-extra is $(extra)"
inside vernier plugin-args --apply | sed 's/^/   /' || fail "vernier plugin-args --apply"
echo LD_PRELOAD=/usr/lib/vernier/libvernier_vhost.so >> "$root/etc/default/vernier-plugin"
inside systemctl restart openvswitch-switch || { inside journalctl -u ovs-vswitchd --no-pager | tail -20 >&2; fail "Open vSwitch with the plugin"; }
# The plugin serves once there is a port to measure.
inside ovs-vsctl --timeout=20 add-br br0 -- set bridge br0 datapath_type=netdev \
  -- add-port br0 p1 -- set Interface p1 type=dpdk options:dpdk-devargs=net_null0 || fail "a port of Open vSwitch"
for _ in $(seq 100); do inside curl -sf http://127.0.0.1:9464/healthz >/dev/null && break; sleep 0.1; done
inside vernier status | head -1 | sed 's/^/   /'
vswitchd=$(inside cat /run/openvswitch/ovs-vswitchd.pid)
for object in librte_vernier.so libvernier_vhost.so; do
  inside grep -q "$object" "/proc/$vswitchd/maps" || fail "Open vSwitch did not load $object"
done

echo "== the plugin goes while Open vSwitch has it, and Open vSwitch starts without it"
inside apt-get remove -y -q vernier-plugin > "$root/packages/remove.log" 2>&1 || { cat "$root/packages/remove.log" >&2; fail "apt remove"; }
[ "$(extra)" = "\"$options\"" ] || fail "dpdk-extra is $(extra)"
inside systemctl restart openvswitch-switch || { inside journalctl -u ovs-vswitchd --no-pager | tail -20 >&2; fail "Open vSwitch without the plugin"; }
[ "$(inside ovs-vsctl get Open_vSwitch . dpdk_initialized)" = true ] || fail "Open vSwitch has no DPDK without the plugin"
inside systemctl stop openvswitch-switch || fail "Open vSwitch's stop"
echo "$pages" > /proc/sys/vm/nr_hugepages

echo "== purge"
echo '{}' > "$root/etc/vernier/plugin.json"
inside apt-get purge -y -q vernier > "$root/packages/purge.log" 2>&1 || { cat "$root/packages/purge.log" >&2; fail "apt purge"; }
[ -e "$root/etc/vernier/plugin.json" ] || fail "the purge of vernier took the plugin's settings"
inside apt-get purge -y -q vernier-plugin >> "$root/packages/purge.log" 2>&1 || { cat "$root/packages/purge.log" >&2; fail "apt purge of the plugin"; }
stop
trap - EXIT
for user in vernier vernier-station; do
  in_root id "$user" >/dev/null 2>&1 && fail "the user $user is still there"
done
in_root id vernier-probe >/dev/null || fail "the purge took a user that was there before"
files | diff "$root/packages/before" - > "$root/packages/left" || true
# What booting once makes.
grep '^>' "$root/packages/left" | grep -vE ' \./(var/lib/systemd|var/lib/private|var/lib/dbus|etc/machine-id|(etc|var/lib)/openvswitch|root)|\./(etc|var)/\.(pwd|updated)|\.pwd\.lock' &&
  fail "the purge left these files"
echo "passed"
