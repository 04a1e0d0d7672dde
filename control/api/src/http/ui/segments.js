// Segments: the list, and all that is known of one.

import { path } from "./api.js";
import { Chart, SIGNALS, courseFor, pointsOf, sparkline } from "./charts.js";
import { Table, cell, facts, fill, h, panel, to, mark } from "./dom.js";
import * as heat from "./heat.js";
import { judgeAll } from "./slow.js";
import { bytes, count, duration, percent, rate, title } from "./units.js";

/** Figures are shown for so many seconds; after that they are too old. */
const FRESH_S = 10;

/** A segment's last figures, unless they are too old (as `records::Snapshot::fresh`). */
export function fresh(segment, answer, status) {
  const { last } = segment;
  const { workers } = status;
  if (!last || (workers.length && workers.every((worker) => worker.is_stalled))) return null;
  return ((answer.epoch - last.epoch) * answer.interval_ms) / 1e3 <= FRESH_S ? last : null;
}

export const nameOf = (one) => title(one.ingress, one.egress, one.class);
export const linkOf = (one) => to("segments", one.ingress, one.egress, one.class);
export const keyOf = (one) => [one.ingress, one.egress, one.class].join("\n");

/** Rows of the segments' table: each with its last figures, its course and whether it is slow. */
export function rowsOf({ segments, status, tens, hours }) {
  const judged = new Map(judgeAll(tens, hours).map((one) => [one.name, one]));
  return segments.segments.map((segment) => {
    const last = fresh(segment, segments, status);
    const found = judged.get(keyOf(segment));
    const isSlow = found && Object.values(found.signals).some((signal) => signal.rise != null);
    const { stamped, lda } = last ?? {};
    return { segment, last, stamped, lda, found, isSlow, endS: tens?.epoch_end_unix_s, intervalMs: segments.interval_ms };
  });
}

/** The columns of `vernier top`, with the mean's course. Where the mean is known exactly, its estimate is not shown. */
export function columns(few) {
  const exact = (name, field, low) => ({ name, low, sort: true, of: (row) => cell(row.stamped?.[field], duration) });
  const perS = (row, n) => row.last && (n * 1e3) / row.intervalMs;
  const lost = (row) => row.last?.counts.dropped_packets;
  const share = (row) => row.last && lost(row) / Math.max(1, row.last.counts.sent_packets);
  const bad = (row) => (lost(row) ? "bad" : "");
  return [
    { name: "segment", left: true, of: (row) => ({ text: nameOf(row.segment), kind: row.isSlow ? "slow" : "" }) },
    { name: "ten minutes", left: true, low: 1, of: (row) => ({ node: spark(row) }) },
    { name: "packets/s", low: 1, sort: true, of: (row) => cell(perS(row, row.last?.counts.sent_packets), rate) },
    { name: "bit/s", low: 2, sort: true, of: (row) => cell(perS(row, row.last?.counts.sent_bytes * 8), rate) },
    { name: "lost/s", low: 2, sort: true, of: (row) => cell(perS(row, lost(row)), rate, bad(row)) },
    { name: "loss", sort: true, of: (row) => cell(share(row), percent, bad(row)) },
    { name: "mean", sort: true, of: (row) => cell(row.stamped?.mean_ns ?? row.lda?.mean_ns, duration) },
    !few && { name: "\u00b198%", low: 2, of: (row) => (row.stamped ? { text: "exact" } : cell(row.lda?.bound_ns, duration)) },
    !few && exact("stddev", "stddev_ns", 2),
    !few && exact("p50", "p50_ns", 2),
    exact("p99", "p99_ns"),
    exact("p99.9", "p999_ns", 1),
    !few && exact("p99.99", "p9999_ns", 2),
    exact("max", "max_ns", 1),
  ].filter(Boolean);
}

/** The small line of a row, drawn anew when its course has changed. */
const sparks = new Map();
function spark(row) {
  const course = row.found?.course ?? [];
  const last = course.at(-1);
  const state = [course.length, last?.start_unix_s, last?.packets, row.isSlow].join();
  const old = sparks.get(keyOf(row.segment));
  if (old?.state === state) return old.node;
  const node = sparkline(course, 10, row.endS, row.isSlow);
  sparks.set(keyOf(row.segment), { state, node });
  return node;
}

export const table = (few, empty) =>
  new Table(columns(few), { empty, key: (row) => keyOf(row.segment), open: (row) => linkOf(row.segment) });

/** What is asked for any list of segments. */
export const asks = (isShort) => [
  ["segments", "api/v1/segments", isShort ? 2 : 0],
  ["tens", path("epochs", { width_s: 10, limit: 500 }), 5],
  ["hours", path("epochs", { width_s: 60, limit: 500 }), 30],
];

/** The list. */
export const list = {
  asks: () => asks(false),
  make(root) {
    const rows = table(false, "measurement is off (measurement.enabled), or no segment has been seen yet");
    const note = h("p.note");
    root.append(panel("segments", rows.element, note));
    return (answers) => {
      heat.take(answers.segments);
      root.dataset.epoch = answers.segments.epoch;
      rows.update(rowsOf(answers));
      const { matching } = answers.tens;
      fill(note, matching > 500 ? `courses of the first 500 of ${matching} segments` : "figures of the last epoch; Enter opens a segment");
    };
  },
};

/** One segment. */
export const one = {
  asks([ingress, egress, name]) {
    const filter = { ingress, egress, class: name };
    const remembered = heat.isOpen([ingress, egress, name]) ? 1 : 1e6;
    return [["segments", path("segments", filter), 0], ["courses", path("epochs", filter), 0], ["parts", path("distributions", filter), remembered]];
  },
  make(root, names, { axis }) {
    const [ingress, egress, group] = names;
    const map = new heat.HeatMap(axis);
    const [delay, loss, load] = [["delay", { height: 190, legend: true }], ["loss", { height: 96, legend: true }], ["packets/s", { height: 96, legend: true }]]
      .map(([name, options]) => new Chart(axis, name, options));
    const [now, estimates, totals] = [h("div"), h("div"), h("div")];
    const quantiles = new Table(QUANTILE_COLUMNS, { empty: "no packets in the last epoch, nor in the last minute", key: (row) => row.name, all: true });
    root.append(
      h("p.trail", null, h("a", { href: "#/segments" }, "segments"), " \u203a ", h("b", null, title(...names)),
        " \u00b7 ", h("a.other", { href: to("segments", egress, ingress, group) }, `the other direction, ${title(egress, ingress, group)}`)),
      h("section.panel", null, h("h2", null, "over time"), axis.bar(), delay.element, loss.element, load.element, map.element),
      h("div.two", null, panel("now", now, h("details", null, h("summary", null, "estimates, beside the exact mean"), estimates)), panel("quantiles, by stamps", quantiles.element)),
      panel("since the switch started", totals),
    );
    return (answers) => {
      const { segments: answer, courses, parts, status } = answers;
      heat.take(answer);
      heat.begin(names, parts);
      axis.take(courses.epoch_end_unix_s, courses.origin_unix_s);
      root.dataset.epoch = answer.epoch;
      const segment = answer.segments[0];
      if (!segment) return fill(now, mark("warn", "there is no such segment, or no packet has passed it yet"));
      const last = fresh(segment, answer, status);
      fill(now, facts(present(last, answer.interval_ms)));
      fill(estimates, facts(estimated(last)));
      quantiles.update(quantilesOf(segment, last));
      const course = courseFor(courses.segments[0]?.courses ?? [], axis);
      const line = (signal, kind, name = signal.name) => ({ name, kind, points: pointsOf(course, signal, courses.interval_ms), widthS: course?.width_s ?? 1 });
      delay.update([line(SIGNALS.max, "most"), line(SIGNALS.p99, "p99"), line(SIGNALS.mean, "mean"), line(SIGNALS.p50, "median")], SIGNALS.mean);
      loss.update([line(SIGNALS.loss, "lost", "")], SIGNALS.loss);
      load.update([line(SIGNALS.rate, "mean", "")], SIGNALS.rate);
      map.update(heat.columnsOf(names));
      fill(totals, facts(totalsOf(segment)));
    };
  },
};

const QUANTILE_COLUMNS = [
  { name: "", left: true, of: (row) => ({ text: row.name }) },
  { name: "last epoch", of: (row) => cell(row.epoch, row.write) },
  { name: "last minute", of: (row) => cell(row.minute, row.write) },
];

const QUANTILES = [["mean", "mean_ns"], ["stddev", "stddev_ns"], ["min", "min_ns"], ["p50", "p50_ns"], ["p90", "p90_ns"],
  ["p99", "p99_ns"], ["p99.9", "p999_ns"], ["p99.99", "p9999_ns"], ["max", "max_ns"]];

/** Of the last epoch and the last minute. */
function quantilesOf({ last_minute: minute }, last) {
  const epoch = last?.stamped;
  if (!epoch && !minute) return [];
  const packets = { name: "packets", epoch: epoch && last.counts.received_packets, minute: minute?.packets, write: count };
  return [packets, ...QUANTILES.map(([name, field]) => ({ name, epoch: epoch?.[field], minute: minute?.[field], write: duration }))];
}

/** What is known of the last epoch. */
function present(last, intervalMs) {
  if (!last) return [["", "no figures of the last ten seconds"]];
  const { counts, stamped } = last;
  const perS = (n) => (n * 1e3) / intervalMs;
  const share = counts.dropped_packets / Math.max(1, counts.sent_packets);
  return [
    ["packets/s", rate(perS(counts.sent_packets)), perS(counts.sent_packets)],
    ["bit/s", rate(perS(counts.sent_bytes) * 8), perS(counts.sent_bytes) * 8],
    ["lost/s", rate(perS(counts.dropped_packets)), perS(counts.dropped_packets), counts.dropped_packets ? "bad" : ""],
    ["loss", percent(share), share, counts.dropped_packets ? "bad" : ""],
    ["mean", stamped ? `${duration(stamped.mean_ns)}, exact, of ${count(counts.received_packets)} packets` : "not measured", stamped?.mean_ns],
    ["epoch", String(last.epoch), last.epoch],
  ];
}

/** The estimates of the last epoch, which the exact mean judges. */
function estimated(last) {
  const { lda, references } = last ?? {};
  const verdict = lda?.is_within_bound ? "the exact mean is within" : "the exact mean is OUTSIDE";
  return [
    ["LDA", lda ? `${duration(lda.mean_ns)} \u00b1${duration(lda.bound_ns)} (98 %), of ${count(lda.effective_samples)} packets; ${verdict}`
      : "no estimate: too few cells were usable, or there is no LDA", lda?.mean_ns, lda && !lda.is_within_bound ? "estimate" : ""],
    lda && ["cells", `${count(lda.usable_cells)} of ${count(lda.cells)} usable; ${lda.lost_packets.toFixed(0)} packets lost, as estimated`, lda.usable_cells],
    references && ["references", `${duration(references.mean_ns)}, of ${count(references.packets)} packets, ${count(references.exact_packets)} of them exactly`, references.mean_ns],
  ];
}

function totalsOf({ total }) {
  const { counts } = total;
  const unusable = Object.entries(total.unusable_epochs).filter(([, n]) => n > 0).map(([why, n]) => `${n} ${why}`);
  const measured = total.buckets.reduce((all, one) => all + one.packets, 0);
  const held = total.estimated_epochs
    ? `in ${total.within_bound_epochs} of ${total.estimated_epochs} epochs (${((total.within_bound_epochs / total.estimated_epochs) * 100).toFixed(1)}%)`
    : "no epoch with an estimate";
  return [
    ["sent", `${count(counts.sent_packets)} packets, ${bytes(counts.sent_bytes)}`, counts.sent_packets],
    ["measured", count(measured), measured],
    ["lost", count(counts.dropped_packets), counts.dropped_packets, counts.dropped_packets ? "bad" : ""],
    ["late", count(counts.late_packets), counts.late_packets],
    ["exact mean inside LDA's 98 % interval", held, total.within_bound_epochs],
    ["unusable epochs", unusable.join(", ") || "0"],
  ];
}
