#!/usr/bin/env bash
# Shows what Vernier is for, in half a minute: `demo.sh NAME`. Without a name, it lists the demonstrations.
#
# A demonstration runs in namespaces of its own. Its processes, interfaces and files vanish with them, however it ends.
set -euo pipefail
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

case ${1:-} in firewall | sites | class | ovs) ;; *)
  cat <<'END'
make demo NAME=firewall   a firewall that drops packets, measured from outside
make demo NAME=sites      two sites, and a hop between them that becomes slow
make demo NAME=class      a traffic class that is starved by another
make demo NAME=ovs        the slowest flows of an unchanged Open vSwitch
END
  [ -z "${1:-}" ] && exit
  exit 2
  ;;
esac
programs=$(cd "${PROGRAMS:-$examples/../target/release}" && pwd)
PATH=$programs:$PATH:/usr/sbin:/sbin

# Ends because this machine lacks something.
lacks() {
  echo "$1" >&2
  exit 77
}
# Ends unless a command exists.
need() {
  command -v "$1" >/dev/null || lacks "There is no $1: install its package, or use \`make demo\`."
}

need ip
if [ -z "${IN_DEMO:-}" ]; then
  own=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  [ "$(id -u)" = 0 ] || own+=(--map-root-user)
  "${own[@]}" true 2>/dev/null ||
    lacks "The demonstration needs namespaces, and this system gives users none: run \`sudo examples/demo.sh $1\`."
  IN_DEMO=1 setpriv --pdeathsig KILL "${own[@]}" "$examples/demo.sh" "$1" &
  trap 'kill -KILL $!; exit 130' INT TERM HUP
  wait $!
  exit
fi
# Nothing outside sees this folder.
mount -t tmpfs -o mode=755 tmpfs /run
cd /run
ip link set lo up

. "$examples/programs.sh"
# Prints a command, and runs it.
run() {
  printf '\n$ %s\n' "$*"
  "$@"
}
ovs_program=usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk

firewall() {
  need nft
  cat <<'END'
A firewall drops one packet in twenty to port 443. Vernier does not know that
rule. It sees only which packets enter the firewall, and which come out.

  clients --- vernierd --- firewall --- vernierd --- servers
END
  for side in in out; do ip link add ${side}side type veth peer name fw-$side; done
  ip link add fw type bridge
  ip link set fw-in master fw
  ip link set fw-out master fw
  for interface in inside fw-in outside fw-out fw; do ip link set $interface up; done
  nft -f - <<'END'
table bridge fw {
  chain drops { type filter hook forward priority 0; tcp dport 443 numgen random mod 20 0 drop; }
}
END
  cat >vernier.json <<'END'
{
  "ports": [
    { "name": "lan", "device": "generate:flows=8,rate=2000,seed=1" },
    { "name": "inside", "device": "net_af_packet0,iface=inside" },
    { "name": "outside", "device": "net_af_packet1,iface=outside" },
    { "name": "wan", "device": "generate:flows=8,rate=1500,seed=2,side=1" }
  ],
  "forwarding": { "mode": "patch", "pairs": [["lan", "inside"], ["outside", "wan"]] },
  "measurement": { "flows": {}, "around": [{ "name": "firewall", "ports": ["inside", "outside"] }] },
  "workers": [{ "idle": "sleep" }]
}
END
  start vernierd vernierd --config vernier.json
  lost() { vernier ports | awk -F '  +' '$1 == "firewall" && $2 == "inside" { print $5 }'; }
  has_lost() { [[ $(lost) =~ ^[0-9]{3}$|[kM]$ ]]; }
  until_done 'waited for lost packets' has_lost
  run vernier ports | sed -n '1,2p; /^device/,$p'
  # A packet that is in the firewall when the second ends is no loss.
  flows() {
    vernier flows --limit 1000 | awk -F '  +' '
      $2 == "lan>inside" { entered[$1] = $3 }
      $2 == "firewall:inside>firewall:outside" { left[$1] = $3 }
      END {
        printf "%-50s %8s %8s\n", "flow, packets of the last second", "entered", "left"
        for (flow in left) {
          mark = entered[flow] > left[flow] + 4 ? "  <- lost" : ""
          printf "%-50s %8d %8d%s\n", flow, entered[flow], left[flow], mark
        }
      }'
  }
  has_losers() { flows >flows && grep -q lost flows; }
  until_done 'waited for flows that lose packets' has_losers
  printf '\n%s\n\n' 'Which flows lose them? `vernier flows` has each flow on both sides:'
  cat flows
  printf '\n%s\n' 'Only flows to port 443 lose packets. For your own device: docs/around.md.'
}

sites() {
  need nats-server
  cat <<'END'
Two sites are connected by a carrier that reports nothing. The switches edge-1
and edge-2 measure the delay between them on the packets that they forward, and
a station compares it with what is usual.

  site 1 --- edge-1 --- carrier --- edge-2 --- site 2

The station is learning, for about 20 s.
END
  head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >wire.key
  chmod 600 wire.key
  for n in 1 2; do
    cat >edge-$n.json <<END
{
  "name": "edge-$n",
  "ports": [
    { "name": "lan", "device": "generate:flows=50,rate=1000,size=1000,seed=$n,side=$((n - 1))" },
    {
      "name": "trunk",
      "device": "net_memif0,role=client,id=0,socket=/run/$n.sock,socket-abstract=no",
      "wire": { "capacity_bps": 1000000000, "share": 0.02 }
    }
  ],
  "forwarding": { "mode": "patch", "pairs": [["lan", "trunk"]] },
  "measurement": { "interval_ms": 100, "hash_seed": "00112233445566778899aabbccddeeff" },
  "wire": { "switch": $n, "keys": [{ "id": 1, "file": "wire.key" }], "clock": { "error_ns": 500 } },
  "workers": [{ "idle": "sleep" }],
  "http": { "listen": null },
  "report": { "nats": { "servers": ["nats://127.0.0.1:4222"] } },
  "dpdk": { "memory_mib": 64, "mbufs": 8192 }
}
END
  done
  # $1: bits a second from edge-1 to edge-2.
  carrier() {
    cat >carrier.json <<END
{
  "ports": [
    { "name": "one", "device": "net_memif0,role=server,id=0,socket=/run/1.sock,socket-abstract=no" },
    {
      "name": "two", "device": "net_memif1,role=server,id=0,socket=/run/2.sock,socket-abstract=no",
      "egress": { "capacity_bps": $1, "queue_packets": 64 }
    }
  ],
  "forwarding": { "mode": "patch", "pairs": [["one", "two"]] },
  "workers": [{ "idle": "sleep" }],
  "http": { "listen": null },
  "dpdk": { "memory_mib": 64, "mbufs": 8192 }
}
END
  }
  carrier 1000000000
  start nats nats-server --addr 127.0.0.1 --jetstream --store_dir store
  start station vernier-station --nats nats://127.0.0.1:4222
  start carrier vernierd --config carrier.json
  local carrier=$!
  # A client of memif wants its server there.
  until_done 'waited for the carrier' test -S 1.sock -a -S 2.sock
  for n in 1 2; do start edge-$n vernierd --config edge-$n.json; done
  export VERNIER_STATION=http://127.0.0.1:9465
  has_learnt() { vernier blame --json | grep -q '"learning": 0' && vernier path edge-1 edge-2 --json | grep -q '"is_covered": true'; }
  until_done 'waited for the station to learn' has_learnt
  run vernier path edge-1:lan edge-2:lan
  echo 'Now the carrier has too little bandwidth: packets wait, and some are dropped. Who is to blame?'
  carrier 9000000
  kill -HUP $carrier
  # After three seconds, the figures are of the slow carrier alone.
  is_blamed() { vernier blame edge-1:lan edge-2:lan | grep -qE 'in edge-1:trunk > edge-2:trunk: .* since ([3-9]|[1-9][0-9]+) s'; }
  until_done 'waited for the cause' is_blamed
  run vernier blame edge-1:lan edge-2:lan
  printf '\n%s\n' 'The slow hop is named, and since when. For your own sites: docs/station.md.'
}

class() {
  cat <<'END'
Backups (TCP) and calls (UDP) share an uplink of 28 Mbit/s. By mistake, backups
are always sent first.
END
  # $1: the class that goes first, $2: the other.
  configure() {
    cat >vernier.json <<END
{
  "ports": [
    { "name": "lan", "device": "generate:flows=200,rate=4200,size=1000,seed=1" },
    {
      "name": "uplink",
      "device": "sink",
      "egress": {
        "capacity_bps": 28000000,
        "queues": [
          { "classes": ["$1"], "service": "strict", "packets": 256 },
          { "classes": ["$2"], "service": { "weight": 1 }, "packets": 256 }
        ]
      }
    }
  ],
  "forwarding": { "mode": "patch", "pairs": [["lan", "uplink"]] },
  "classes": [{ "name": "backups" }, { "name": "calls" }],
  "rules": [{ "class": "backups", "protocol": "tcp" }],
  "workers": [{ "idle": "sleep" }]
}
END
  }
  # Whether calls meet a condition in the last second: $3 is their loss, $4 their mean delay.
  calls() { vernier segments >segments && awk -F '  +' '$1 == "lan>uplink calls" && !n++ { met = '"$1"' } END { exit !met }' segments; }
  show() { printf '\n$ vernier segments\n' && sed '/^uplink/,$d' segments; }
  configure backups calls
  start vernierd vernierd --config vernier.json
  until_done 'waited for lost calls' calls '$3 + 0 > 0'
  show
  configure calls backups
  kill -HUP $!
  until_done 'waited for the reload' calls '$3 + 0 == 0 && $4 ~ /us$|^..?[.].* ms$/'
  printf '\n%s\n' 'Calls are starved. The order is corrected, and the switch reloads it:'
  show
  printf '\n%s\n' 'For your own classes: docs/configuration.md, examples/classes.json.'
}

ovs() {
  local root='' folder
  for folder in / "$examples/../.tools/"; do
    [ -n "$root" ] || [ ! -e "$folder"$ovs_program ] || root=$folder
  done
  [ -n "$root" ] || lacks 'There is no Open vSwitch with DPDK: install openvswitch-switch-dpdk, or use `make demo`.'
  cat <<'END'
An Open vSwitch forwards packets between two hosts. It is Debian's, unchanged:
DPDK loads Vernier's plugin into it.

  host --- Open vSwitch with plugin --- host
END
  # EAL loads no plugin from a folder that others can write to.
  cp "$programs/librte_vernier.so" .
  export OVS_RUNDIR=/run OVS_LOGDIR=/run OVS_DBDIR=/run OVS_SYSCONFDIR=/run OVS_PKGDATADIR=${root}usr/share/openvswitch
  PATH=${root}usr/bin:${root}usr/sbin:$PATH
  for n in 0 1; do
    ip link add p$n type veth peer name host$n
    # Without addresses the interfaces send nothing of their own.
    for interface in p$n host$n; do ip link set $interface addrgenmode none up; done
  done
  ovsdb-tool create conf.db
  start ovsdb ovsdb-server conf.db --remote=punix:/run/db.sock
  until_done 'waited for the database' test -S db.sock
  vsctl() { ovs-vsctl --db=unix:/run/db.sock --timeout=20 "$@"; }
  # Without --legacy-mem, Open vSwitch adds --in-memory, which needs hugepages.
  vsctl --no-wait init -- set Open_vSwitch . other_config:dpdk-init=true \
    other_config:dpdk-extra="--no-pci --no-huge --legacy-mem --no-shconf --no-telemetry -m 512 $(vernier plugin-args --plugin /run/librte_vernier.so)"
  start ovs "$root"$ovs_program unix:/run/db.sock
  until_done 'waited for Open vSwitch' vsctl --may-exist add-br br0 -- set bridge br0 datapath_type=netdev
  for n in 0 1; do
    vsctl add-port br0 p$n -- set Interface p$n type=dpdk options:dpdk-devargs=net_af_packet$n,iface=p$n
  done
  cat >hosts.json <<'END'
{
  "ports": [
    { "name": "one", "device": "generate:flows=50,rate=2000,seed=1" },
    { "name": "host0", "device": "net_af_packet0,iface=host0" },
    { "name": "two", "device": "generate:flows=50,rate=2000,burst=8,seed=2,side=1" },
    { "name": "host1", "device": "net_af_packet1,iface=host1" }
  ],
  "forwarding": { "mode": "patch", "pairs": [["one", "host0"], ["two", "host1"]] },
  "workers": [{ "idle": "sleep" }],
  "http": { "listen": null }
}
END
  start hosts vernierd --config hosts.json
  has_flows() { [ "$(vernier flows --sort mean --limit 10 | wc -l)" -gt 10 ]; }
  until_done 'waited for flows' has_flows
  run vernier flows --sort mean --limit 10
  printf '\n%s\n' 'These flows waited longest. For your own Open vSwitch: docs/plugin.md.'
}

"$1"
