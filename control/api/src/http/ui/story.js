// The way of a flow as a picture: its hops in order, each bar as long as the mean delay of the hop and beginning where the one
// before ends, with the 99th percentile as a thin line and losses in red.

import { h, s } from "./dom.js";
import { duration, percent } from "./units.js";

/** Narrower pictures have the figures of a hop below its bar, not beside its name. */
const NARROW = 600;

const BAR = 10, LEFT = 2;

/** A picture of hops: `{ title, mean_ns, p99_ns, loss, isSlowest, note }`; `loss` is a share. */
export function picture(hops, width) {
  const isNarrow = width < NARROW;
  const row = isNarrow ? 56 : 40;
  const known = hops.map((one) => Math.max(0, one.mean_ns ?? 0));
  const sum = known.reduce((a, b) => a + b, 0);
  const starts = known.map((_, n) => known.slice(0, n).reduce((a, b) => a + b, 0));
  const most = Math.max(1, sum, ...hops.map((one, n) => starts[n] + Math.min(one.p99_ns ?? 0, 3 * sum)));
  const x = (ns) => LEFT + (ns / most) * (width - 2 * LEFT);
  const rows = hops.map((one, n) => {
    const y = n * row;
    const [from, to, tail] = [x(starts[n]), x(starts[n] + known[n]), x(starts[n] + Math.min(one.p99_ns ?? 0, 3 * sum))];
    const share = sum > 0 && one.mean_ns != null ? `, ${((known[n] / sum) * 100).toFixed(0)} %` : "";
    const words = one.mean_ns == null ? "not known" : `${duration(one.mean_ns)}${share}`;
    const loss = one.loss > 0 ? `  \u2212${percent(one.loss)}` : "";
    return s("g", { class: one.isSlowest ? "hop slow" : "hop", "data-hop": one.title },
      s("title", null, `${one.title}: mean ${words}${one.p99_ns == null ? "" : `, p99 ${duration(one.p99_ns)}`}, lost ${one.loss == null ? "not known" : percent(one.loss)}`),
      s("text", { x: LEFT, y: y + 13, class: "name" }, one.title + (one.note ? ` (${one.note})` : "")),
      s("text", { x: isNarrow ? LEFT : width - LEFT, y: y + (isNarrow ? 43 : 13), class: isNarrow ? "" : "end" }, words, loss && s("tspan", { class: "lost" }, loss)),
      s("line", { x1: LEFT, x2: width - LEFT, y1: y + 24, y2: y + 24, class: "grid" }),
      one.p99_ns != null && s("line", { x1: from, x2: tail, y1: y + 24, y2: y + 24, class: "tail" }),
      s("rect", { x: from, y: y + 24 - BAR / 2, width: Math.max(2, to - from), height: BAR, class: "bar" }),
      one.loss > 0 && s("path", { d: `M${to + 3} ${y + 20}l8 8m0 -8l-8 8`, class: "cross" }));
  });
  const height = hops.length * row;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "the way of the flow", class: "story" }, rows);
  const total = hops.length > 1 ? `sum of the means ${duration(sum)}; ` : "";
  return h("div", null, svg, h("p.note", null, `${total}bar: mean; line: p99; \u00d7: packets were lost`));
}

/** The flow of the other direction, by its name. */
export function reversed(name) {
  const [, source, destination, rest] = /^([^>]+)>([^/]+)(\/.*)$/.exec(name) ?? [];
  return source && `${destination}>${source}${rest}`;
}
