# For the scripts beside this one: programs in the background, each with a log in the current folder. Their numbers are in `pids`.
pids=()

# Starts a program: the name of its log, and its command.
start() {
  "${@:2}" >"$1.log" 2>&1 &
  pids+=($!)
}

# Waits until a command ($2 and following) succeeds. Fails if a program ends, or after minutes.
until_done() {
  for ((n = 0; n < 1800; n++)); do
    "${@:2}" >/dev/null 2>&1 && return
    for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || break 2; done
    sleep 0.1
  done
  echo "$1 in vain; the logs:" >&2
  tail -n 20 ./*.log >&2
  exit 1
}
