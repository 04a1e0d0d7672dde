// Courses over time: small lines for tables, and a chart with axes. Colours are in style.css.

import { s, h, fill } from "./dom.js";
import { clock, count, duration } from "./units.js";

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
  const parts = runs(points, widthS).map((run) => {
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

/** Parts of a course without gaps. */
function runs(points, widthS) {
  const parts = [];
  for (const one of points) {
    const last = parts.at(-1)?.at(-1);
    if (last && one.start_unix_s - last.start_unix_s < 2.5 * widthS) parts.at(-1).push(one);
    else parts.push([one]);
  }
  return parts;
}

/** A round number that is no less, for an axis. */
function roundUp(ns) {
  const ten = 10 ** Math.floor(Math.log10(ns));
  return ten * [1, 2, 4, 5, 10].find((step) => ten * step >= ns);
}

/** The chart of a course: mean, greatest 99th percentile, estimates with their bounds, losses. */
export class Chart {
  constructor(name, mean = "mean, by stamps") {
    this.name = name;
    this.readout = h("p.readout", { "aria-live": "off" });
    this.place = h("div.chart");
    this.place.addEventListener("pointermove", (event) => this.point(event));
    this.place.addEventListener("pointerleave", () => this.say(null));
    this.element = h("div", null, legend(mean), this.place, this.readout);
  }

  update(course, endS) {
    Object.assign(this, { buckets: filled(course?.buckets ?? []), widthS: course?.width_s ?? 1, endS });
    this.place.dataset.buckets = this.buckets.length;
    if (!this.buckets.length) return fill(this.place, h("p.empty", null, "no packets in this time"));
    const estimate = (one) => (one.estimated_mean_ns ?? 0) + (one.bound_ns ?? 0);
    const tops = this.buckets.map((one) => Math.max(one.mean_ns, one.p99_max_ns ?? 0, estimate(one)));
    this.top = roundUp(Math.max(...tops, 1) * 1.02);
    const width = Math.max(280, this.place.clientWidth || 600);
    this.box = { left: 56, right: 12, top: 8, bottom: 20, width, height: 190 };
    const label = `${this.name}: mean ${duration(this.buckets.at(-1).mean_ns)} at the end`;
    const attributes = { width, height: 190, viewBox: `0 0 ${width} 190`, role: "img", "aria-label": label };
    fill(this.place, s("svg", attributes, this.axes(), this.lines()));
    this.cursor = s("line", { class: "cursor", y1: 8, y2: 170, visibility: "hidden" });
    this.place.firstChild.append(this.cursor);
    this.say(null);
  }

  x(startS) {
    const { left, right, width } = this.box;
    const share = 1 - (this.endS - startS - this.widthS / 2) / (this.widthS * 60);
    return left + Math.min(1, Math.max(0, share)) * (width - left - right);
  }

  y(ns) {
    const { top, bottom, height } = this.box;
    return top + (1 - ns / this.top) * (height - top - bottom);
  }

  axes() {
    const { left, right, width, height } = this.box;
    const lines = [0, 0.25, 0.5, 0.75, 1].map((share) => {
      const y = this.y(share * this.top);
      const text = s("text", { x: left - 6, y: y + 4, class: "axis end" }, duration(share * this.top));
      return [s("line", { x1: left, x2: width - right, y1: y, y2: y, class: "grid" }), share * 4 % 2 ? null : text];
    });
    const unit = this.widthS === 1 ? [1, "s"] : [60, "min"];
    const times = [60, 45, 30, 15, 0].map((buckets) => {
      const x = left + (1 - buckets / 60) * (width - left - right);
      const name = buckets ? `-${(buckets * this.widthS) / unit[0]} ${unit[1]}` : "now";
      const anchor = buckets === 60 ? "axis start" : buckets ? "axis middle" : "axis end";
      return s("text", { x, y: height - 5, class: anchor }, name);
    });
    return s("g", null, lines.flat(), times);
  }

  lines() {
    const parts = [];
    const draw = (kind, of) => {
      const known = this.buckets.filter((one) => of(one) != null);
      for (const run of runs(known, this.widthS)) {
        const points = run.map((one) => `${this.x(one.start_unix_s).toFixed(1)},${this.y(of(one)).toFixed(1)}`);
        if (run.length === 1) points.push(points[0]);
        parts.push(s("polyline", { points: points.join(" "), class: kind }));
      }
    };
    draw("p99", (one) => one.p99_max_ns);
    draw("mean", (one) => one.mean_ns);
    for (const one of this.buckets) {
      const x = this.x(one.start_unix_s);
      if (one.estimated_mean_ns != null) {
        const [low, high] = [-1, 1].map((sign) => this.y(Math.max(0, one.estimated_mean_ns + sign * (one.bound_ns ?? 0))));
        parts.push(s("line", { x1: x, x2: x, y1: low, y2: high, class: "bound" }));
        parts.push(s("circle", { cx: x, cy: this.y(one.estimated_mean_ns), r: 1.8, class: "estimate" }));
      }
      if (one.lost_packets > 0) parts.push(s("rect", { x: x - 1.5, y: this.y(0) - 6, width: 3, height: 6, class: "lost" }));
    }
    return s("g", null, parts);
  }

  point(event) {
    if (!this.buckets?.length) return;
    const at = event.clientX - this.place.getBoundingClientRect().left;
    const far = (one) => Math.abs(this.x(one.start_unix_s) - at);
    this.say(this.buckets.reduce((a, b) => (far(b) < far(a) ? b : a)));
  }

  /** Words about a bucket; without one, of the last. */
  say(bucket) {
    const one = bucket ?? this.buckets?.at(-1);
    if (!one) return fill(this.readout);
    this.cursor?.setAttribute("visibility", bucket ? "visible" : "hidden");
    for (const end of ["x1", "x2"]) this.cursor?.setAttribute(end, this.x(one.start_unix_s));
    const estimate = one.estimated_mean_ns == null ? "" : `, estimated ${duration(one.estimated_mean_ns)} ` +
      (one.bound_ns == null ? "of unknown error" : `\u00b1${duration(one.bound_ns)}`);
    const most = [[" p99 ", one.p99_max_ns], [" max ", one.max_ns]].filter(([, ns]) => ns != null);
    const words = most.map(([name, ns]) => "," + name + duration(ns)).join("");
    fill(this.readout, `${clock(one.start_unix_s)} UTC: mean ${duration(one.mean_ns)}${words}, ` +
      `${count(one.packets)} packets, ${count(one.lost_packets)} lost${estimate}`);
  }
}

/** What the lines of a chart are. */
function legend(mean) {
  const kinds = [["mean", mean], ["p99", "greatest p99"], ["estimate", "estimate, 98 % bound"], ["lost", "packets lost"]];
  const line = (kind) => {
    const shape = kind === "estimate"
      ? [s("line", { x1: 8, x2: 8, y1: 1, y2: 11, class: "bound" }), s("circle", { cx: 8, cy: 6, r: 2, class: kind })]
      : kind === "lost"
        ? s("rect", { x: 6, y: 4, width: 4, height: 8, class: kind })
        : s("polyline", { points: "0,6 16,6", class: kind });
    return s("svg", { width: 16, height: 12, "aria-hidden": "true" }, shape);
  };
  return h("p.legend", null, kinds.map(([kind, name]) => h("span", null, line(kind), " ", name)));
}
