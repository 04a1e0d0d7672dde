// Of a station: all segments, one with its minutes, and the switches.

import { path, serverNow } from "./api.js";
import { Chart, SIGNALS, pointsOf } from "./charts.js";
import { Table, cell, facts, fill, h, mark, panel, search } from "./dom.js";
import { segmentLink } from "./paths.js";
import { ago, count, counted, duration, percent, title, uptime } from "./units.js";

/** Segments of a list. */
const LIMIT = 1000;

const columns = () => [
  { name: "switch", left: true, of: (one) => ({ text: one.switch }) },
  { name: "segment", left: true, of: (one) => ({ text: title(one.from, one.to, one.class) }) },
  { name: "kind", left: true, low: 1, of: (one) => ({ text: one.kind.replace("_", " ") }) },
  { name: "packets", sort: true, of: (one) => cell(one.packets, count) },
  { name: "lost", low: 2, sort: true, of: (one) => cell(one.lost, String, one.lost > 0 ? "bad" : "") },
  { name: "loss", sort: true, of: (one) => cell(one.packets ? one.lost / one.packets : null, percent, one.lost > 0 ? "bad" : "") },
  { name: "mean", sort: true, of: (one) => cell(one.mean_ns, duration) },
  { name: "\u00b198%", low: 1, of: (one) => cell(one.bound_ns, (ns) => (ns > 0 ? duration(ns) : "exact")) },
  { name: "stddev", low: 2, sort: true, of: (one) => cell(one.stddev_ns, duration) },
  { name: "p99", sort: true, of: (one) => cell(one.p99_ns, duration) },
  { name: "max", low: 1, sort: true, of: (one) => cell(one.max_ns, duration) },
  { name: "samples", low: 2, of: (one) => cell(one.samples, count) },
  { name: "by", left: true, low: 2, of: (one) => ({ text: one.method || "-" }) },
  { name: "age", low: 2, of: (one) => cell(one.age_s, (s) => `${s.toFixed(1)} s`) },
];

const keyOf = (one) => [one.switch, one.kind, one.from, one.to, one.class].join("\n");

/** All segments. */
export const segments = {
  asks: () => [["segments", path("segments", { limit: LIMIT }), 2]],
  make(root) {
    const rows = new Table(columns(), { key: keyOf, open: segmentLink, empty: "no segment has been reported, or none is like this" });
    const note = h("p.note");
    root.append(panel("segments, latest reports", rows.element, note));
    return ({ segments: { segments: list, matching } }) => {
      rows.update(list);
      fill(note, matching > LIMIT ? `the first ${LIMIT} of ${matching} segments` : counted(matching, "segment"), search.words.length > 0 && ", those like the search");
    };
  },
};

/** One segment, by its minutes. */
export const segment = {
  asks: ([name, kind, , , group]) => [
    ["segments", path("segments", { switch: name, kind, class: group, limit: 100_000 }), 2],
    ["history", path("history", { switch: name, minutes: 60 }), 10],
  ],
  make(root, [name, kind, from, end, group], { axis }) {
    const whole = title(from, end, group);
    const [now, rises] = [h("div"), h("div.words")];
    const [delay, loss] = [["delay", { height: 190, legend: true }], ["loss", { height: 90, legend: true }]].map(([of, options]) => new Chart(axis, of, options));
    // Minutes make an hour.
    if (axis.spanS !== 3600) axis.choose(3600);
    root.append(
      h("p.trail", null, h("a", { href: "#/segments" }, "segments"), " \u203a ", h("b", null, `${name}: ${whole}`), ` (${kind.replace("_", " ")})`),
      panel("latest report", rises, now),
      h("section.panel", null, h("h2", null, "by minutes"), axis.bar(), delay.element, loss.element),
    );
    return ({ segments: { segments: list }, history, blame }) => {
      const one = list.find((each) => each.from === from && each.to === end);
      const risen = blame.risen.filter((each) => keyOf(each) === [name, kind, from, end, group].join("\n"));
      fill(rises, risen.map((each) => h("p", null, mark("bad", `its ${each.signal} has risen since ${ago(serverNow - each.since_unix_s)}`))));
      fill(now, one ? facts(figures(one)) : mark("warn", "no such segment has been reported"));
      const minutes = history.minutes.filter((each) => each.segment === `${kind} ${from}>${end} ${group}` && each.samples > 0);
      const buckets = minutes.map((each) => ({
        start_unix_s: each.start_unix_s, packets: each.samples, lost_packets: each.lost, mean_ns: each.mean_ns,
        p99_max_ns: each.p99_ns, estimated_mean_ns: each.bound_ns > 0 ? each.mean_ns : null, bound_ns: each.bound_ns, sent: each.packets,
      }));
      const course = { width_s: 60, buckets };
      axis.take((minutes.at(-1)?.start_unix_s ?? serverNow) + 60);
      const isExact = buckets.every((each) => each.estimated_mean_ns == null);
      const line = (signal, kind, name = signal.name) => ({ name, kind, points: pointsOf(course, signal, 1), widthS: 60 });
      delay.update([line(SIGNALS.p99, "p99"), isExact ? line(SIGNALS.mean, "mean") : line(SIGNALS.estimate, "estimated")], SIGNALS.mean);
      loss.update([line({ ...SIGNALS.loss, of: (each) => Math.max(0, each.lost_packets / each.sent) }, "lost", "")], SIGNALS.loss);
    };
  },
};

function figures(one) {
  const mean = one.mean_ns == null ? "not measured" : `${duration(one.mean_ns)} ` +
    (one.bound_ns > 0 ? `\u00b1${duration(one.bound_ns)} (98 %), of ${count(one.samples)} packets` : `of ${count(one.samples)} packets`);
  return [
    ["packets", count(one.packets), one.packets],
    ["lost", `${one.lost}, ${one.packets ? percent(Math.max(0, one.lost / one.packets)) : "of none"}`, one.lost, one.lost > 0 ? "bad" : ""],
    ["mean", mean, one.mean_ns],
    ["stddev", one.stddev_ns == null ? "not measured" : duration(one.stddev_ns), one.stddev_ns],
    ["p99", one.p99_ns == null ? "not measured" : duration(one.p99_ns), one.p99_ns],
    ["max", one.max_ns == null ? "not measured" : duration(one.max_ns), one.max_ns],
    ["by", one.method || "-"],
    ["age", `${one.age_s.toFixed(1)} s`, one.age_s],
  ];
}

/** The switches. */
export const switches = {
  asks: () => [["switches", "api/v1/switches", 1]],
  make(root) {
    const state = (one) => (one.silent_since_unix_s != null
      ? { text: `silent since ${ago(serverNow - one.silent_since_unix_s)}`, kind: "bad", v: "silent" }
      : one.problems.length ? { text: one.problems.join(", "), kind: "warn", v: "problems" } : { text: "reports", kind: "good", v: "reports" });
    const rows = new Table([
      { name: "switch", left: true, of: (one) => ({ text: one.switch }) },
      { name: "state", left: true, of: state },
      { name: "epoch", tip: "the last epoch reported", of: (one) => cell(one.epoch, String) },
      { name: "interval", low: 2, of: (one) => cell(one.interval_s, (s) => `${s} s`) },
      { name: "clock", left: true, low: 1, of: (one) => ({ text: one.clock || "-" }) },
      { name: "reports", low: 1, sort: true, of: (one) => cell(one.reports, count) },
      { name: "missed epochs", sort: true, of: (one) => cell(one.missed_epochs, count, one.missed_epochs ? "bad" : "") },
      { name: "dropped", low: 2, tip: "reports that the switch dropped because its spool was full", of: (one) => cell(one.dropped_reports, count) },
      { name: "duplicates", low: 2, of: (one) => cell(one.duplicates, count) },
      { name: "restarts", low: 1, sort: true, of: (one) => cell(one.restarts, count) },
      { name: "last gap", low: 2, of: (one) => one.gaps.length && { text: `${uptime(serverNow - one.gaps.at(-1).end_unix_s)} ago` } },
    ], { key: (one) => one.switch, empty: "no switch has reported yet" });
    root.append(panel("switches", rows.element));
    return ({ switches: answer }) => rows.update(answer.switches);
  },
};
