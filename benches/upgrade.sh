#!/usr/bin/env bash
# Runs the programs of an earlier version beside those of this one, as on machines that are upgraded one at a time: two
# switches with a wire, stations that take turns on one store, probes and reflectors. Fails at the first thing that does
# not work. It has a network namespace to itself, so that its ports are free; `make upgrade` starts it.
#
#   OLD_PROGRAMS, NEW_PROGRAMS   folders with vernierd, vernier, vernier-probe and vernier-station
set -euo pipefail
old=$(cd "$OLD_PROGRAMS" && pwd)
new=$(cd "$NEW_PROGRAMS" && pwd)
examples=$(cd "$(dirname "$0")/../examples" && pwd)
nats=$(command -v nats-server || true)
[ -n "$nats" ] || { echo "There is no nats-server: \`make setup-station\` unpacks Debian's." >&2; exit 1; }
ip link set lo up

folder=$(mktemp -d)
declare -A pids=()
stop() {
  local name
  for name in "$@"; do
    [ -n "${pids[$name]:-}" ] || continue
    kill "${pids[$name]}" 2>/dev/null && wait "${pids[$name]}" 2>/dev/null || true
    unset "pids[$name]"
  done
}
end() {
  trap - EXIT INT TERM
  stop edge-1 edge-2 station-1 station-2 reflector nats
  rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' INT TERM
cd "$folder"

start() {
  local name=$1
  shift
  "$@" >"$name.log" 2>&1 &
  pids[$name]=$!
}
fail() {
  echo "upgrade: $*; the logs say:" >&2
  tail -n 15 ./*.log >&2
  exit 1
}
until_true() {
  local what=$1
  shift
  for ((n = 0; n < 600; n++)); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  fail "waited a minute in vain for $what"
}
get() { curl -sf --max-time 10 "http://127.0.0.1:$1/$2"; }
# A jq filter is true of an answer.
is() { get "$1" "$2" | jq -e "$3" >/dev/null; }

head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >wire.key
chmod 600 wire.key
# The server has no users here: the passwords of the examples are left out.
for edge in edge-1 edge-2; do
  jq 'del(.report.nats.user, .report.nats.password_file)' "$examples/station-$edge.json" |
    sed "s|/tmp/vernier-trunk.sock|$folder/trunk.sock|" >$edge.json
done

start_station() { # name, programs, port
  start "$1" "$2/vernier-station" --nats nats://127.0.0.1:9468 --listen "127.0.0.1:$3"
}
start_edges() { # programs of edge-1, of edge-2
  start edge-1 "$1/vernierd" --config edge-1.json
  # memif's client wants its server there.
  until_true 'the socket of edge-1' test -S trunk.sock
  start edge-2 "$2/vernierd" --config edge-2.json
}
measures='.wires[0] | .session == "established" and ([.segments[] | .last.chosen.mean_ns > 0] | all)'
# Of 30 epochs some may be lost as the session begins; later ones may not, and every frame is understood.
measured='.wires[0] | ([.segments[].epochs[] | select(.label == "usable").packets] | min) > 10
  and ([.total.disbelieved_frames[] | select(.label == "malformed" or .label == "version").packets] | add) == 0
  and ([.total.events[] | select(.label == "frame_malformed").packets] | add) == 0'
covered='.paths[0] | .is_covered'

for pair in old:new new:old; do
  first=${pair%:*} second=${pair#*:}
  rm -rf store trunk.sock
  start nats "$nats" --addr 127.0.0.1 --port 9468 --jetstream --store_dir "$folder/store"
  start_station station-1 "${!first}" 9465
  start_edges "${!first}" "${!second}"
  for port in 9466 9467; do
    until_true "a wire between $first edge-1 and $second edge-2" is $port api/v1/wires "$measures"
    until_true "ten usable epochs without an unknown frame ($port)" is $port api/v1/wires "$measured"
  done
  echo "wire: edge-1 ($first) and edge-2 ($second) measure both directions"
  path='api/v1/path?from=edge-1:lan&to=edge-2:lan'
  until_true "the path at the station" is 9465 "$path" "$covered"
  echo "reports: the $first station has those of both"

  # The store of one is taken over by the other, while switches report.
  reports() { get "$1" api/v1/switches | jq '[.switches[].reports] | add'; }
  before=$(reports 9465)
  stop station-1
  start_station station-1 "${!second}" 9465
  until_true "the $second station to answer from the $first one's store" is 9465 "$path" "$covered"
  counted() { (($(reports 9465) > before + 4)); }
  until_true "the $second station to go on counting" counted
  is 9465 api/v1/switches '[.switches[] | .restarts + .missed_epochs] | add == 0' ||
    fail "the $second station takes what the $first one stored for something else"
  echo "store: the $second station goes on where the $first one was ($before reports, $(reports 9465) now)"

  # Both at once share the partitions.
  start_station station-2 "${!first}" 9469
  owned() { get "$1" metrics | awk '$1 == "vernier_station_partitions" {print $2}'; }
  shared() { (($(owned 9465) + $(owned 9469) == 64 && $(owned 9465) > 0 && $(owned 9469) > 0)); }
  until_true 'both stations to share the partitions' shared
  before=$(reports 9469)
  both() { (($(reports 9465) > before + 4 && $(reports 9469) > before + 4)); }
  until_true 'both stations to answer with what the other counts' both
  echo "stations: both versions share 64 partitions and answer alike"
  stop edge-1 edge-2 station-1 station-2 nats

  port=$((4862 + ${#first}))
  start reflector "${!second}/vernier-probe" --reflect --listen "127.0.0.1:$port"
  probed() { "${!first}/vernier-probe" "127.0.0.1:$port" --count 10; }
  until_true "replies of the $second reflector to the $first probe" probed
  echo "probe: the $first one is answered by the $second reflector"
  stop reflector
done
echo 'upgrade: old and new work together'
