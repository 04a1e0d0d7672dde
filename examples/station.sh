#!/usr/bin/env bash
# NATS, two switches with a wire between them, and a station: shows the path from one to the other until Ctrl-C, or for
# $1 seconds. Everything is a process of this user, and ends with this script.
set -euo pipefail
duration=${1:-}
port=${STATION_PORT:-9465} # The station's; the switches' and NATS's are the next three.
examples=$(cd "$(dirname "$0")" && pwd)
programs=${PROGRAMS:-$examples/../target/release}
programs=$(cd "$programs" && pwd)
nats=$(command -v nats-server || true)
[ -n "$nats" ] || { echo "There is no nats-server: \`make setup-station\` unpacks Debian's." >&2; exit 1; }

. "$examples/programs.sh"
folder=$(mktemp -d)
end() {
  trap - EXIT INT TERM
  # The switches first: what they report at their end is still taken.
  for ((n = ${#pids[@]} - 1; n >= 0; n--)); do
    kill "${pids[n]}" 2>/dev/null && wait "${pids[n]}" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap end EXIT
trap 'exit 0' INT TERM
cd "$folder"

head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >wire.key
chmod 600 wire.key
# A password for each user of nats.conf: the stations', and one for each switch. The letter keeps NATS from reading a number.
for user in station edge-1 edge-2; do
  variable=$(tr 'a-z-' 'A-Z_' <<<"$user")_PASSWORD
  declare -x "$variable=p$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')"
  (umask 077 && printf '%s\n' "${!variable}" >"$user.password")
done
cat >station.json <<END
{
  "nats": { "servers": ["nats://127.0.0.1:$((port + 3))"], "user": "station", "password_file": "station.password" },
  "http": { "listen": "127.0.0.1:$port" }
}
END
for edge in edge-1 edge-2; do
  sed "s/:9466/:$((port + 1))/; s/:9467/:$((port + 2))/; s/:9468/:$((port + 3))/; s|/tmp/vernier-trunk.sock|$folder/trunk.sock|" "$examples/station-$edge.json" >$edge.json
done

start nats "$nats" --config "$examples/nats.conf" --addr 127.0.0.1 --port $((port + 3)) --store_dir "$folder/store"
start station "$programs/vernier-station" --config station.json
start edge-1 "$programs/vernierd" --config edge-1.json
# memif's client wants its server there.
until_done 'waited for edge-1' test -S trunk.sock
start edge-2 "$programs/vernierd" --config edge-2.json
ask() { "$programs/vernier" --station "http://127.0.0.1:$port" "$@"; }
is_covered() { ask path edge-1:lan edge-2:lan --json | grep -q '"is_covered": true'; }

echo "NATS, edge-1 and edge-2 with a wire, and a station at http://127.0.0.1:$port are starting."
until_done 'waited for a path whose segments are all measured' is_covered
until=$((SECONDS + ${duration:-1000000000}))
while :; do
  echo
  echo "\$ vernier --station http://127.0.0.1:$port path edge-1:lan edge-2:lan"
  ask path edge-1:lan edge-2:lan
  for ((n = 0; n < 25; n++)); do
    ((SECONDS < until)) || exit 0
    sleep 0.2
  done
done
