// The switch's health in words, as `vernier status` says it.

import { mark, facts } from "./dom.js";
import { count, duration, labelled, uptime } from "./units.js";

/** What is wrong: `[level, words]`, the worst first. */
export function findings({ status, ports, wires }) {
  const found = status.unready.map((reason) => ["bad", reason]);
  const add = (is, level, words) => is && found.push([level, words]);
  status.workers.forEach((worker, n) => {
    add(worker.busy_ratio > 0.95 && !worker.is_stalled, "warn", `worker ${n} is ${(worker.busy_ratio * 100).toFixed(0)}% busy`);
    add(worker.missed_epochs > 0, "info", `worker ${n} could not measure ${count(worker.missed_epochs)} epochs: no empty shard was ready`);
  });
  const faults = status.contained_panics;
  add(faults > 0, "bad", `${faults} faults of this program were contained: please report the log's lines about them`);
  add(status.reload?.outcome === "refused", "warn", `reload ${status.reload?.number} was refused: ${status.reload?.message}`);
  for (const pool of status.pools) {
    add(pool.used > 0.9 * pool.size, "warn", `pool ${pool.name}: ${pool.used} of ${pool.size} buffers in use`);
  }
  const untracked = (status.flows?.untracked ?? []).filter((one) => one.packets > 0);
  add(untracked.length, "info", `packets of flows that are not tracked: ${labelled(untracked)}`);
  const { backward_packets, outlived_packets } = status.exceptions;
  add(backward_packets > 0, "warn", `${count(backward_packets)} packets with negative delays, taken as 0: counters of cores disagree`);
  add(outlived_packets > 0, "info", `${count(outlived_packets)} packets outlived their generation, and count in no segment`);
  for (const port of ports?.ports ?? []) {
    // Control frames of wires end here: no packet is lost.
    const drops = port.drops.filter((one) => one.packets > 0 && one.label !== "control");
    add(drops.length, "info", `port ${port.name} has dropped ${labelled(drops)} since the switch started`);
    const device = port.facts.missed_packets + port.facts.no_buffer_packets;
    add(device > 0, "warn", `port ${port.name}: its device dropped ${count(device)} packets that the switch did not see`);
  }
  add(wires?.clock?.state === "free", "bad", "the clock of the wires follows nothing: wires have no figures");
  for (const wire of wires?.wires ?? []) {
    const why = wire.mismatch ? `: ${wire.mismatch}` : "";
    add(wire.session !== "established", "bad", `wire ${wire.port}: session ${wire.session}${why}`);
    add(wire.is_blocked, "bad", `wire ${wire.port} is looped to this same switch: no data passes`);
  }
  const order = ["bad", "warn", "info"];
  return found.sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
}

/** The findings, or that there are none. */
export function words(answers) {
  const found = findings(answers);
  if (!found.length) return [mark("good", "ready: ports are up, workers run, epochs close")];
  const isReady = found.every(([level]) => level !== "bad");
  const head = isReady ? [mark("good", "ready")] : [];
  return [...head, ...found.map(([level, text]) => mark(level, text))];
}

/** Lines of `vernier status`. */
export function lines(status) {
  const epoch = !status.measuring ? "measurement off"
    : status.epoch == null ? "the first has not closed yet"
    : `${status.epoch} of ${status.interval_ms} ms, generation ${status.generation}`;
  const { reload, fdb, flows, decoding } = status;
  const workers = status.workers.map((worker, n) => [`worker ${n}`, worker.is_stalled ? "STALLED"
    : `${(worker.busy_ratio * 100).toFixed(0)}% busy, ${worker.cycles_per_packet.toFixed(0)} cycles a packet, ` +
      `polls at most ${duration(worker.poll_gap_max_ns)} apart`, worker.busy_ratio]);
  const judged = status.judged.filter((one) => one.method === "chosen").map((one) => {
    const bounded = one.within_bound + one.beyond_bound;
    const error = one.error_ratio_median == null ? "-" : `${(one.error_ratio_median * 100).toFixed(2)}%`;
    return `${one.size} packets: ${error}, ${bounded ? ((one.within_bound / bounded) * 100).toFixed(1) + "%" : "-"}`;
  });
  return facts([
    ["switch", `${status.switch}, vernier ${status.version}, ${status.state}, up ${uptime(status.uptime_s)}`],
    ["epoch", epoch, status.epoch],
    reload && ["reload", `${reload.number} ${reload.outcome.replace("_", " ")}${reload.message ? ": " + reload.message : ""}`],
    ...workers,
    ...status.pools.map((pool) => [`pool ${pool.name}`, `${pool.used} of ${pool.size} buffers in use`, pool.used]),
    fdb && ["addresses", `${fdb.entries} of ${fdb.capacity} known`, fdb.entries],
    flows && ["flows", `${flows.tracked} tracked, ${flows.free_slots} slots free`, flows.tracked],
    decoding?.epoch != null && ["decoding", `epoch ${decoding.epoch}: ${decoding.flows} flows in ${(decoding.duration_s * 1e3).toFixed(0)} ms`],
    judged.length && ["estimates", `median error and bounds that held, of flows of ${judged.join("; ")}`],
  ]);
}

