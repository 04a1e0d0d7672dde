// The first view: what is slow now and since when, and the switch's health in words.

import { Table, cell, fill, h, mark, panel } from "./dom.js";
import * as health from "./health.js";
import * as heat from "./heat.js";
import * as ports from "./ports.js";
import * as segments from "./segments.js";
import { judgeAll, rises } from "./slow.js";
import { clock, duration, percent, uptime } from "./units.js";

/** Segments of the overview. */
const SEGMENTS = 12;

/** A delay, or a share of packets. */
const amount = (signal, value) => (signal === "loss" ? percent(value) : duration(value));

const slowTable = () => new Table([
  { name: "segment", left: true, of: (row) => ({ text: segments.nameOf(row.segment), kind: "slow" }) },
  { name: "of", left: true, of: (row) => ({ text: row.signal }) },
  { name: "usual", low: 1, of: (row) => cell(row.usual, (value) => amount(row.signal, value)) },
  { name: "now", of: (row) => cell(row.now, (value) => amount(row.signal, value), "bad") },
  { name: "rise", low: 1, of: (row) => cell(row.rise, (value) => `+${amount(row.signal, value)}`) },
  { name: "since", tip: "UTC", of: (row) => cell(row.sinceS, clock) },
  { name: "for", low: 1, of: (row) => cell(row.endS - row.sinceS, uptime) },
], { key: (row) => `${row.name}\n${row.signal}`, open: (row) => segments.linkOf(row.segment) });

export const view = {
  asks: () => [...segments.asks(), ["ports", "api/v1/ports", 0], ["wires", "api/v1/wires", 5]],
  make(root) {
    const slow = slowTable(), list = segments.table(true, "measurement is off (measurement.enabled), or no segment has been seen yet"), devices = ports.table();
    const [verdict, words, lines, note] = [h("p.verdict"), h("div.words"), h("div"), h("p.note")];
    root.append(
      panel("slow now", verdict, slow.element),
      panel("health", words, h("details", null, h("summary", null, "the switch in figures"), lines)),
      panel("segments, the highest p99 first", list.element, note),
      panel("ports", devices.element),
    );
    return (answers) => {
      const { status, tens, hours } = answers;
      heat.take(answers.segments);
      root.dataset.epoch = answers.segments.epoch;
      const judged = judgeAll(tens, hours);
      const risen = rises(judged).map((row) => ({ ...row, endS: tens.epoch_end_unix_s }));
      fill(verdict, verdictOf(judged, risen, status));
      slow.element.hidden = !risen.length;
      slow.update(risen);
      fill(words, health.words(answers).map((one) => h("p", null, one)));
      fill(lines, health.lines(status));
      const rows = segments.rowsOf(answers);
      const worst = [...rows].sort((a, b) => (b.stamped?.p99_ns ?? -1) - (a.stamped?.p99_ns ?? -1)).slice(0, SEGMENTS);
      list.update(worst);
      fill(note, rows.length > SEGMENTS && h("a", { href: "#/segments" }, `all ${rows.length} segments`));
      devices.update(answers.ports.ports);
    };
  },
};

/** What the comparison says as a whole, and with what it compares. */
function verdictOf(judged, risen, status) {
  if (!status.measuring) return mark("info", "measurement is off (measurement.enabled)");
  const how = "now: the last 20 s; usual: the median of the last hour, as far as the switch remembers it";
  const active = judged.filter((one) => one.signals.mean.now != null);
  const learning = active.filter((one) => one.signals.mean.usual == null).length;
  const short = learning ? `; of ${learning} the history is too short to say` : "";
  if (!active.length) return mark("info", "no packet has passed in the last 20 s");
  const level = risen.length ? "bad" : learning === active.length ? "info" : "good";
  const what = risen.length === 1 ? "1 rise" : risen.length ? `${risen.length} rises` : learning === active.length
    ? "nothing is known to be above what is usual" : "nothing is above what is usual";
  return [mark(level, h("b", null, what), ` in ${active.length} segments with packets${short}. `), h("br"), h("small", null, how)];
}
