// Wires: the clock, the sessions, and both directions of every segment.

import { Table, cell, fill, h, mark, panel } from "./dom.js";
import { count, duration, percent, rate, sum, title } from "./units.js";

/** What is asked for. */
const asks = () => [["wires", "api/v1/wires", 0]];

function clockWords(clock) {
  const step = clock.last_step_ns == null ? "" : `; set ${clock.steps} times, last by ${duration(clock.last_step_ns)}`;
  const level = clock.state === "locked" ? "good" : clock.state === "free" ? "bad" : "warn";
  return mark(level, `clock ${clock.state.replace("_", " ")}, ${clock.error_source} error ${duration(clock.error_ns)}, TAI - UTC = ${clock.tai_utc_s} s, ` +
    `PTP domain ${clock.ptp_domain}${step}`);
}

function sessions() {
  const peer = ({ peer }) => peer && { text: `${peer.switch}/${peer.port_name}` };
  const used = (wire) => (wire.control_bps / Math.max(1, wire.share_bps)) * 100;
  return new Table([
    { name: "port", left: true, tip: "the port of this switch that leads to the wire", of: (wire) => ({ text: wire.port }) },
    { name: "session", left: true, of: (wire) => ({ node: sessionOf(wire), v: wire.session }) },
    { name: "peer", left: true, of: peer },
    { name: "peer's clock", left: true, low: 1, of: ({ peer }) => peer && { text: `${peer.clock}, claims ${duration(peer.clock_error_ns)}`, v: peer.clock_error_ns } },
    { name: "control", low: 1, of: (wire) => cell(wire.control_bps, (bps) => `${rate(bps)}bit/s`) },
    { name: "of share", low: 2, of: (wire) => cell(used(wire), (of) => `${of.toFixed(0)} %`) },
    { name: "least delay", low: 2, of: (wire) => cell(wire.floor_ns, duration) },
    { name: "clock offset", low: 1, of: offset },
    { name: "withheld", low: 2, of: (wire) => cell(wire.total.references_withheld, count) },
    { name: "rejected", low: 1, of: (wire) => cell(sum(wire.total.disbelieved_frames), count) },
  ], { key: (wire) => wire.port, empty: "no port measures the path to another switch (ports[].wire)" });
}

/** Where the offset of the other end's clock lies. */
const offset = ({ offset_min_ns: least, offset_max_ns: most, is_clock_contradicted: isWrong }) => {
  const [from, to] = [least, most].map((ns) => (ns == null ? "?" : duration(ns)));
  return { text: least == null && most == null ? "-" : `${from} to ${to}`, v: least ?? most, kind: isWrong ? "bad" : "" };
};

/** Made once for each state: a cell keeps its node. */
const marks = new Map();
function sessionOf({ port, session }) {
  const known = marks.get(port);
  if (known?.session === session) return known.node;
  const node = mark(session === "established" ? "good" : session === "waiting" ? "warn" : "bad", session);
  marks.set(port, { session, node });
  return node;
}

/** Of a direction the last usable epoch, else the totals. */
const counts = ({ last, ...all }) => last ?? all;

function directions() {
  const chosen = (segment) => segment.last?.chosen;
  return new Table([
    { name: "segment", left: true, of: (one) => ({ text: title(one.from, one.to, one.class) }) },
    { name: "measured by", left: true, low: 2, of: (one) => ({ text: one.is_incoming ? "this end" : "the other end" }) },
    { name: "epoch", low: 2, of: (one) => cell(one.last?.epoch, String) },
    { name: "sent", low: 1, of: (one) => cell(counts(one).sent_packets, count) },
    { name: "lost", low: 1, of: (one) => cell(counts(one).lost_packets, String, counts(one).lost_packets > 0 ? "bad" : "") },
    { name: "loss", of: (one) => cell(counts(one).lost_packets / Math.max(1, counts(one).sent_packets), percent, counts(one).lost_packets > 0 ? "bad" : "") },
    { name: "mean", of: (one) => cell(chosen(one)?.mean_ns, duration) },
    { name: "\u00b198%", tip: "with both clocks' errors", of: (one) => cell(chosen(one)?.bound_ns, duration) },
    { name: "stddev", low: 2, of: (one) => cell(one.last?.stddev_ns, duration) },
    { name: "by", left: true, low: 1, of: (one) => ({ text: chosen(one)?.method ?? "-" }) },
    { name: "samples", low: 1, of: (one) => cell(chosen(one)?.effective_samples, count) },
    { name: "state", left: true, of: (one) => ({ text: one.fate ?? "-", kind: one.fate && one.fate !== "usable" ? "bad" : "" }) },
  ], { key: (one) => [one.from, one.to, one.class].join("\n"), empty: "no segment on a wire" });
}

function remarks({ wires }) {
  const of = (wire) => {
    const banks = wire.lda.banks.map((bank) => `${bank.rows} rows ${(bank.probability * 100).toFixed(3)} %`).join(", ");
    const losses = wire.lda.prepared_losses;
    const head = losses == null ? "LDA samples" : `LDA for ${losses.toFixed(0)} lost packets an epoch samples`;
    return [
      wire.mismatch && mark("bad", `${wire.port}: ${wire.mismatch}`),
      wire.is_blocked && mark("bad", `${wire.port}: looped to this same switch, or two switches have the same number: no data passes`),
      !wire.is_blocked && wire.session === "loop" && mark("warn", `${wire.port}: its own hellos return through the routers, and no peer answers: data passes`),
      wire.flows && mark("info", `${wire.port}: ${count(wire.flows.number)} flows decoded of epoch ${wire.flows.epoch}`),
      banks && mark("info", `${wire.port}: ${head}: ${banks}`),
    ];
  };
  return wires.flatMap(of).filter(Boolean);
}

export const view = {
  asks,
  make(root) {
    const [clock, notes, lists] = [h("p"), h("div.words"), [sessions(), directions()]];
    root.append(panel("sessions", clock, lists[0].element), panel("segments on wires", lists[1].element, notes));
    return ({ wires }) => {
      root.dataset.epoch = wires.epoch;
      fill(clock, wires.clock ? clockWords(wires.clock) : "");
      lists[0].update(wires.wires);
      lists[1].update(wires.wires.flatMap((wire) => wire.segments));
      fill(notes, remarks(wires).map((one) => h("p", null, one)));
    };
  },
};
