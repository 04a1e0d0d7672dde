// The first view: what rose and what is known of the cause, the switch's health in words, and the worst segments over time.

import { Chart, SIGNALS, courseFor, pointAt, pointsOf, swatch } from "./charts.js";
import { Table, cell, fill, h, isFound, mark, panel } from "./dom.js";
import * as health from "./health.js";
import * as heat from "./heat.js";
import * as ports from "./ports.js";
import * as segments from "./segments.js";
import { incidents, judgeAll, loadOf, placeOf } from "./slow.js";
import { clock, count, duration, percent, rate, uptime } from "./units.js";

/** Segments of the table, and of the charts: as many as there are colours. */
const SEGMENTS = 12, LINES = 6;

const named = (list, most) => list.slice(0, most).join(", ") + (list.length > most ? ` and ${list.length - most} more` : "");

/** A signal of an incident's worst segment: now, and usual in brackets. */
const risen = (name, write) => ({
  name: `${name} now`,
  of: ({ segments: [{ signals: { [name]: signal } }] }) => (signal.now == null ? undefined
    : { text: write(signal.now) + (signal.usual == null ? "" : ` (${write(signal.usual)})`), v: signal.now, kind: signal.rise == null ? "" : "bad" }),
});

const incidentTable = () => new Table([
  { name: "incident", left: true, of: (row) => ({ text: named(row.segments.map(({ segment }) => segments.nameOf(segment)), 2), kind: "slow wraps" }) },
  risen("p99", duration),
  { ...risen("mean", duration), low: 2 },
  risen("loss", percent),
  { name: "since", low: 1, of: (row) => cell(row.sinceS, clock) },
  { name: "for", of: (row) => cell(row.endS - row.sinceS, uptime) },
  { name: "what is known", left: true, of: (row) => ({ text: row.known, kind: "wraps" }) },
], { key: (row) => `${row.segments[0].name}\nincident`, open: (row) => segments.linkOf(row.segments[0].segment) });

/** What is known of an incident's cause: where its segments meet, their load, queues, drops, and busy workers. */
function knownOf(incident, { status }, devices) {
  const place = placeOf(incident);
  const load = loadOf(incident.segments, status.interval_ms);
  const port = devices.find(({ name }) => name === place.egress);
  const drops = port?.rates?.drops.slice(0, 2).map((one) => `${rate(one.packets)} packets/s ${one.label}`) ?? [];
  const busy = status.workers.flatMap((worker, n) => (worker.is_stalled ? `worker ${n} has stalled` : worker.busy_ratio > 0.95 ? `worker ${n} is busy` : []));
  const words = [
    load.isRisen ? `load rose from ${rate(load.usual)} to ${rate(load.now)} packets/s` : load.usual > 0 && "load is as usual",
    drops.length && `${port.name} drops ${drops.join(", ")}`,
    port?.queued_packets > 0 && `${count(port.queued_packets)} packets queue at ${port.name}`,
    port && !drops.length && !port.queued_packets && `nothing queues at ${port.name}`,
    ...busy,
  ].filter(Boolean);
  const where = place.egress ? `all leave by ${place.egress}` : place.ingress && `all enter by ${place.ingress}`;
  return [incident.segments.length > 1 && where, ...words].filter(Boolean).join("; ");
}

/** The four charts of the worst segments, and what they show at the cursor. */
class Courses {
  constructor(axis) {
    this.axis = axis;
    this.charts = [SIGNALS.p99, SIGNALS.p50, SIGNALS.loss, SIGNALS.rate].map((signal) => [signal, new Chart(axis, signal.name)]);
    this.lines = [];
    this.kinds = new Map();
    this.when = h("p.readout");
    this.table = new Table([
      { name: "segment", left: true, of: (row) => ({ node: row.label }) },
      ...this.charts.map(([signal]) => ({ name: signal.name, low: signal === SIGNALS.rate ? 1 : undefined, tip: `${signal.name} at the cursor, else of the last bucket`, of: (row) => cell(row.values[signal.name], signal.write) })),
    ], { key: (row) => `${row.name}\nat the cursor`, open: (row) => segments.linkOf(row.segment), empty: "no packets in this time" });
    this.element = h("section.panel.wide", null, h("h2", null, "the worst segments"), axis.bar(),
      h("div.worst", null, h("div.charts", null, this.charts.map(([, chart]) => chart.element)), h("div", null, this.when, this.table.element)));
    axis.drawn.add(this);
  }

  /** Takes the courses of the worst segments; a segment keeps its colour as long as it is shown. */
  update(judged, { intervalMs, minutes, seconds }) {
    const coursesOf = ({ segment, name }) => [segment, ...[seconds, minutes].map((answer) => answer?.segments.find((one) => segments.keyOf(one) === name))]
      .flatMap((one) => one?.courses ?? []);
    const top = ({ signals, course }) => [Object.values(signals).some((one) => one.rise != null) ? 1 : 0, Math.max(0, ...course.map((one) => one.p99_max_ns ?? one.mean_ns))];
    const worst = judged.filter(({ segment, course }) => course.length && isFound(segments.nameOf(segment)))
      .sort((a, b) => top(b)[0] - top(a)[0] || top(b)[1] - top(a)[1]).slice(0, LINES);
    for (const name of [...this.kinds.keys()]) if (!worst.some((one) => one.name === name)) this.kinds.delete(name);
    for (const { name } of worst) {
      const taken = new Set(this.kinds.values());
      if (!this.kinds.has(name)) this.kinds.set(name, [0, 1, 2, 3, 4, 5].find((kind) => !taken.has(kind)));
    }
    this.lines = worst.map((one) => {
      const course = courseFor(coursesOf(one), this.axis);
      const kind = `line${this.kinds.get(one.name)}`;
      const points = Object.fromEntries(this.charts.map(([signal]) => [signal.name, pointsOf(course, signal, intervalMs)]));
      return { ...one, kind, points, widthS: course?.width_s ?? 1, label: h("span", null, swatch(kind), ` ${segments.nameOf(one.segment)}`) };
    });
    for (const [signal, chart] of this.charts) {
      chart.update(this.lines.map((line) => ({ name: segments.nameOf(line.segment), kind: line.kind, widthS: line.widthS, points: line.points[signal.name] })), signal);
    }
    this.draw();
  }

  draw() {
    this.mark();
  }

  mark() {
    const { cursorS } = this.axis;
    const at = ({ points, widthS }, { name }) => pointAt({ points: points[name], widthS }, cursorS)?.v;
    this.table.update(this.lines.map((line) => ({ ...line, values: Object.fromEntries(this.charts.map(([signal]) => [signal.name, at(line, signal)])) })));
    fill(this.when, cursorS == null ? "now; point at a chart to read it, click to hold the cursor, drag to zoom" : `at ${clock(cursorS)} UTC`);
  }
}

export const view = {
  asks: (_, { axis }) => [...segments.asks(), ["ports", "api/v1/ports", 0], ["wires", "api/v1/wires", 5],
    ...(axis.spanS === 60 || axis.isYoung ? [["seconds", "api/v1/epochs?width_s=1&limit=500", 1]] : [])],
  make(root, _, { axis }) {
    const slow = incidentTable(), list = segments.table(true, "measurement is off (measurement.enabled), or no segment has been seen yet"), devices = ports.table(true);
    const [verdict, words, lines, note] = [h("p.verdict"), h("div.words"), h("div"), h("p.note")];
    const courses = new Courses(axis);
    slow.element.classList.add("incidents");
    root.append(
      panel("slow now", verdict, slow.element),
      panel("health", words, h("details", null, h("summary", null, "the switch in figures"), lines)),
      courses.element,
      panel("segments, the highest p99 first", list.element, note),
      panel("ports", devices.element),
    );
    return (answers) => {
      const { status, tens, hours, seconds } = answers;
      heat.take(answers.segments);
      axis.take(tens.epoch_end_unix_s, tens.origin_unix_s);
      axis.isYoung = status.uptime_s < 60;
      root.dataset.epoch = answers.segments.epoch;
      const judged = judgeAll(tens, hours);
      const rated = ports.withRates(answers.ports, status.interval_ms);
      const found = incidents(judged).map((row) => ({ ...row, endS: tens.epoch_end_unix_s, known: knownOf(row, answers, rated) }));
      fill(verdict, verdictOf(judged, found, status));
      slow.element.hidden = !found.length;
      slow.update(found);
      fill(words, health.words(answers).map((one) => h("p", null, one)));
      fill(lines, health.lines(status));
      courses.update(judged, { intervalMs: tens.interval_ms, minutes: hours, seconds });
      const rows = segments.rowsOf(answers);
      const worst = [...rows].sort((a, b) => (b.stamped?.p99_ns ?? -1) - (a.stamped?.p99_ns ?? -1)).slice(0, SEGMENTS);
      list.update(worst);
      fill(note, rows.length > SEGMENTS && h("a", { href: "#/segments" }, `all ${rows.length} segments`));
      devices.update(rated);
    };
  },
};

/** What the comparison says as a whole, and with what it compares. */
function verdictOf(judged, found, status) {
  if (!status.measuring) return mark("info", "measurement is off (measurement.enabled)");
  const how = "now: the last 20 s; in brackets the usual level: the median of the last hour, as far as the switch remembers it";
  const active = judged.filter((one) => one.signals.mean.now != null);
  const learning = active.filter((one) => one.signals.mean.usual == null).length;
  const short = learning ? `; the history of ${learning} is too short to tell` : "";
  if (!active.length) return mark("info", "no packet has passed in the last 20 s");
  const level = found.length ? "bad" : learning === active.length ? "info" : "good";
  const what = found.length === 1 ? "1 incident" : found.length ? `${found.length} incidents` : learning === active.length
    ? "nothing is known to be above the usual level" : "nothing is above the usual level";
  return [mark(level, h("b", null, what), ` in ${active.length} segments with packets${short}. `), h("br"), h("small", null, how)];
}
