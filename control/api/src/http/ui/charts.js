// Lines over time: small ones for tables, and charts with axes along the shared time axis. Colours are in style.css.

import { fill, h, s } from "./dom.js";
import { clock, duration, percent, rate } from "./units.js";

/** Buckets with packets. */
const filled = (buckets) => buckets.filter((bucket) => bucket.packets > 0);

/** The mean over a course, as a small line; a dot where there is one bucket only. */
export function sparkline(buckets, widthS, endS, slow) {
  const [width, height, spanS] = [120, 20, widthS * 60];
  const points = filled(buckets ?? []);
  const top = Math.max(...points.map((one) => one.mean_ns), 1);
  const x = (one) => width - 2 - Math.min(1, Math.max(0, (endS - one.start_unix_s) / spanS)) * (width - 4);
  const y = (one) => height - 2 - (one.mean_ns / top) * (height - 4);
  const label = points.length
    ? `mean delay, ${duration(Math.min(...points.map((one) => one.mean_ns)))} to ${duration(top)}`
    : "no history";
  const parts = runs(points.map((one) => ({ ...one, s: one.start_unix_s })), widthS).map((run) => {
    const line = run.map((one) => `${x(one).toFixed(1)},${y(one).toFixed(1)}`).join(" ");
    return run.length > 1
      ? s("polyline", { points: line, class: "mean" })
      : s("circle", { cx: x(run[0]), cy: y(run[0]), r: 1.5, class: "mean-dot" });
  });
  const lost = points.filter((one) => one.lost_packets > 0);
  const drops = lost.map((one) => s("rect", { x: x(one) - 1, y: height - 4, width: 2, height: 4, class: "lost" }));
  const box = `0 0 ${width} ${height}`;
  const attributes = { viewBox: box, width, height, role: "img", "aria-label": label };
  return s("svg", { ...attributes, class: slow ? "spark slow" : "spark" }, s("title", null, label), parts, drops);
}

/** Parts of a line without gaps. */
function runs(points, widthS) {
  const parts = [];
  for (const one of points) {
    const last = parts.at(-1)?.at(-1);
    if (last && one.s - last.s < 2.5 * widthS) parts.at(-1).push(one);
    else parts.push([one]);
  }
  return parts;
}

/** What a bucket may show: its name, how it is read from a bucket of so many milliseconds an epoch, and how it is written. What
counts is known where every packet was lost, too. */
export const SIGNALS = {
  p99: { name: "p99", of: (one) => one.p99_max_ns, write: duration },
  p50: { name: "p50", of: (one) => one.p50_ns, write: duration },
  mean: { name: "mean", of: (one) => one.mean_ns, write: duration },
  max: { name: "max", of: (one) => one.max_ns, write: duration },
  estimate: { name: "estimate", of: (one) => one.estimated_mean_ns, write: duration },
  loss: { name: "loss", counts: true, of: (one) => one.lost_packets / (one.packets + one.lost_packets), write: percent },
  rate: { name: "packets/s", counts: true, of: (one, ms) => ((one.packets + one.lost_packets) * 1e3) / (one.epochs * ms), write: rate },
};

/** Fewest buckets of a line; of a young switch a finer course has more. */
const BUCKETS_MIN = 6;

/** The course to draw a span with: that of its 60 buckets; of a part of it the finest that reaches back far enough. */
export function courseFor(courses, axis) {
  const known = courses.filter((one) => one.buckets.length).sort((a, b) => a.width_s - b.width_s);
  const whole = known.find((one) => one.width_s * 60 >= axis.spanS) ?? known.at(-1);
  if (whole?.buckets.length < BUCKETS_MIN) return known[0];
  if (!axis.range) return whole;
  return known.find((one) => one.buckets[0].start_unix_s <= axis.fromS + one.width_s) ?? whole;
}

/** The points of a signal in a course: `{ s, v }`, the middle of a bucket and its value. */
export const pointsOf = (course, signal, ms) => (course?.buckets ?? [])
  .filter((one) => one.packets > 0 || (signal.counts && one.lost_packets > 0))
  .map((one) => ({ s: one.start_unix_s + course.width_s / 2, v: signal.of(one, ms), bound: signal === SIGNALS.estimate ? one.bound_ns : null }))
  .filter((one) => one.v != null && Number.isFinite(one.v));

/** The point of a line at a time; without a time the last one. */
export function pointAt(line, atS) {
  if (atS == null) return line.points.at(-1);
  const far = (one) => Math.abs(one.s - atS);
  const nearest = line.points.reduce((a, b) => (a && far(a) <= far(b) ? a : b), null);
  return nearest && far(nearest) <= 1.5 * line.widthS ? nearest : undefined;
}

/** Largest over smallest value from which on an axis is logarithmic, and back. */
const LOG = 40, LINEAR = 15;

/** A round number that is no less, for an axis. */
function roundUp(value) {
  const ten = 10 ** Math.floor(Math.log10(value));
  return ten * [1, 2, 4, 5, 10].find((step) => ten * step >= value * 0.999999);
}

const TOP = 8, BOTTOM = 20;

/** A chart of lines `{ name, kind, points, widthS }` of one signal; `kind` is their class in style.css. */
export class Chart {
  constructor(axis, name, { height = 150, legend = false } = {}) {
    Object.assign(this, { axis, name, height, lines: [], signal: SIGNALS.mean });
    this.caption = h("p.legend");
    this.hasLegend = legend;
    this.place = h("div.chart", { "data-of": name });
    this.over = s("g");
    this.element = h("div", null, this.caption, this.place);
    axis.listen(this.place);
    axis.drawn.add(this);
    new ResizeObserver(() => this.place.isConnected && this.place.clientWidth !== this.width && this.draw()).observe(this.place);
  }

  update(lines, signal) {
    Object.assign(this, { lines, signal });
    this.draw();
  }

  draw() {
    this.width = this.place.clientWidth;
    const seen = this.lines.map((line) => ({ ...line, points: line.points.filter((one) => one.s >= this.axis.fromS && one.s <= this.axis.toS) }));
    this.place.dataset.buckets = Math.max(0, ...seen.map((line) => line.points.length));
    if (this.place.dataset.buckets === "0") fill(this.place, h("p.empty", null, "no packets in this time"));
    else {
      this.scale(seen.flatMap((line) => line.points).map((one) => one.v + (one.bound ?? 0)));
      const size = { width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}` };
      fill(this.place, s("svg", { ...size, role: "img", "aria-label": this.name }, this.grid(), seen.map((line) => this.line(line)), this.over));
    }
    this.mark();
  }

  /** Linear from 0, or logarithmic where the values are far apart. */
  scale(values) {
    const known = values.filter((value) => value > 0);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    this.isLog = known.length > 0 && most / least > (this.isLog ? LINEAR : LOG);
    this.top = known.length ? roundUp(most * 1.02) : 1;
    if (this.signal === SIGNALS.loss) this.top = Math.min(1, Math.max(this.top, 0.001));
    this.least = this.isLog ? 10 ** Math.floor(Math.log10(least) - 0.001) : 0;
    this.place.dataset.scale = this.isLog ? "log" : "linear";
  }

  y(value) {
    const share = this.isLog ? Math.log(Math.max(value, this.least) / this.least) / Math.log(this.top / this.least) : value / this.top;
    return TOP + (1 - share) * (this.height - TOP - BOTTOM);
  }

  grid() {
    const [left, right] = this.axis.sides(this.width);
    const shares = this.isLog ? [] : [0, 0.25, 0.5, 0.75, 1].map((share) => [share * this.top, share * 4 % 2 === 0]);
    const decades = Math.log10(this.top / this.least);
    for (let ten = this.least; this.isLog && ten <= this.top * 1.001; ten *= 10) shares.push([ten, decades < 5 || Math.round(Math.log10(ten)) % 2 === 0]);
    const levels = shares.map(([value, isNamed]) => {
      const y = this.y(value).toFixed(1);
      return [s("line", { x1: left, x2: right, y1: y, y2: y, class: "grid" }),
        isNamed && s("text", { x: left - 6, y: Number(y) + 4, class: "axis end" }, value ? this.signal.write(value).replace(/\.0+(?=\D|$)/, "") : "0")];
    });
    const times = this.axis.ticks(this.width).map(([x, text]) => [
      s("line", { x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM, class: "grid faint" }),
      s("text", { x: Math.min(x, right - 12), y: this.height - 5, class: "axis middle" }, text),
    ]);
    return s("g", null, times.flat(), levels.flat());
  }

  line({ points, widthS, kind }) {
    const parts = [];
    const at = (one) => this.axis.x(one.s, this.width).toFixed(1);
    for (const run of runs(points, widthS)) {
      const ends = run.map((one) => `${at(one)},${this.y(one.v).toFixed(1)}`);
      if (run.length === 1) ends.push(ends[0]);
      parts.push(s("polyline", { points: ends.join(" "), class: kind }));
    }
    for (const one of points.filter((one) => one.bound)) {
      const [y1, y2] = [-1, 1].map((sign) => this.y(Math.max(0, one.v + sign * one.bound)).toFixed(1));
      parts.push(s("line", { x1: at(one), x2: at(one), y1, y2, class: "bound" }));
    }
    return s("g", null, parts);
  }

  /** The cursor, and what is there. */
  mark() {
    fill(this.over, this.width ? this.axis.marks(this.width, TOP, this.height - BOTTOM) : []);
    const values = this.lines.map((line) => {
      const one = pointAt(line, this.axis.cursorS);
      const value = one ? this.signal.write(one.v) + (one.bound ? ` \u00b1${this.signal.write(one.bound)}` : "") : "-";
      return h("span", null, swatch(line.kind), ` ${line.name} `, h("b", { "data-line": line.name }, value));
    });
    fill(this.caption, h("b", null, this.name), this.isLog && h("span", null, "logarithmic"), this.hasLegend && values,
      this.hasLegend && this.axis.cursorS != null && h("span", null, `at ${clock(this.axis.cursorS)} UTC`));
  }
}

/** The line of a legend. */
export const swatch = (kind) => s("svg", { width: 16, height: 12, "aria-hidden": "true" }, s("polyline", { points: "0,6 16,6", class: kind }));
