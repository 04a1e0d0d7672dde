#!/usr/bin/env bash
# Runs one fuzz target under libFuzzer: run.sh PROGRAM SEEDS SECONDS TARGET. SEEDS is the folder of seeds that it wrote earlier; FUZZ_ARGS are further arguments of libFuzzer.
set -euo pipefail
program=$1 seeds=$2 seconds=$3 target=$4
log=$seeds/$target.log
read -ra arguments <<<"${FUZZ_ARGS:-}"
if [ -f "$seeds/$target.dict" ]; then arguments+=("-dict=$seeds/$target.dict"); fi
mkdir -p target/fuzz-crashes
if ! FUZZ_TARGET=$target "$program" "$seeds/$target" "benches/fuzz/corpus/$target" "${arguments[@]}" \
  -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="target/fuzz-crashes/$target-" >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "fuzz $target: FAILED; its input is in target/fuzz-crashes" >&2
  exit 1
fi
inputs=$(grep number_of_executed "$log" | grep -oE '[0-9]+')
places=$(grep -oE 'cov: [0-9]+' "$log" | tail -n 1 | grep -oE '[0-9]+')
echo "fuzz $target: held; $inputs inputs, $places places reached"
