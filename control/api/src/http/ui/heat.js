// The heat map of a segment's histogram: how many packets took how long, along the shared time axis. It begins with the last
// minute, which the switch remembers by 5 s; from then on a column is the difference of two answers with all packets since
// the switch started. Of the 5 s in which the page was opened, what its own columns have is taken off.

import { h, fill, s } from "./dom.js";
import { clock, count, duration, rate } from "./units.js";

/** Most columns, and most time, of one segment; most segments. */
const COLUMNS_MAX = 600;
const SPAN_S = 600;
const SEGMENTS_MAX = 64;

/** The columns of each segment, by name. */
const histories = new Map();

/** Takes an answer of `/api/v1/segments`. */
export function take(answer) {
  if (answer.epoch == null) return;
  for (const segment of answer.segments) {
    const name = [segment.ingress, segment.egress, segment.class].join("\n");
    const history = histories.get(name) ?? { columns: [], last: null };
    if (!histories.has(name) && histories.size >= SEGMENTS_MAX) histories.delete(histories.keys().next().value);
    histories.set(name, history);
    add(history, answer, segment.total.buckets);
  }
}

function add(history, answer, buckets) {
  const { last } = history;
  const now = { epoch: answer.epoch, endS: answer.epoch_end_unix_s, counts: new Map(buckets.map((one) => [one.le_ns, one.packets])) };
  if (last?.epoch === now.epoch) return;
  history.last = now;
  if (!last) return;
  const cells = buckets.map((one) => [one.le_ns, one.packets - (last.counts.get(one.le_ns) ?? 0)]);
  // The switch has begun anew, or its clock was set.
  if (now.epoch < last.epoch || now.endS <= last.endS || cells.some(([, packets]) => packets < 0)) {
    history.columns = [];
    return;
  }
  history.columns.push({ fromS: last.endS, toS: now.endS, cells: cells.filter(([, packets]) => packets > 0) });
  const since = now.endS - SPAN_S;
  history.columns = history.columns.filter((one) => one.toS > since).slice(-COLUMNS_MAX);
}

/** Whether the 5 s in which the page's own columns begin have not been read yet. */
export const isOpen = (names) => !histories.get(names.join("\n"))?.isJoined;

/** Takes the last minute of a segment, as the switch remembers it, up to where the page's own columns begin. */
export function begin(names, answer) {
  const history = histories.get(names.join("\n"));
  if (!history?.last || history.isJoined) return;
  const own = history.columns.filter((one) => !one.isRemembered);
  const beginS = own[0]?.fromS ?? history.last.endS;
  const column = (one) => ({ fromS: one.start_unix_s, toS: one.start_unix_s + one.width_s, isRemembered: true, cells: one.buckets.map(({ le_ns, packets }) => [le_ns, packets]) });
  const parts = (answer.segments[0]?.parts ?? []).map(column);
  const before = parts.filter((one) => one.toS <= beginS + 0.001);
  const across = parts.filter((one) => one.toS > beginS + 0.001);
  // Up to an end that parts and columns share: what columns have is taken off what parts have.
  const end = across.find((part) => own.some((one) => Math.abs(one.toS - part.toS) < 0.001));
  if (end && across[0].fromS < beginS - 0.001) {
    const left = new Map();
    const add = (columns, sign) => columns.filter((one) => one.toS <= end.toS + 0.001).flatMap((one) => one.cells)
      .forEach(([le, packets]) => left.set(le, (left.get(le) ?? 0) + sign * packets));
    add(across, 1);
    add(own, -1);
    before.push({ ...across[0], toS: beginS, cells: [...left].filter(([, packets]) => packets > 0) });
  }
  // Or never: what the switch remembers is later by now.
  history.isJoined = end != null || parts[0]?.fromS > beginS;
  history.columns = [...before, ...own];
}

/** Columns of a segment, the oldest first. */
export const columnsOf = (names) => histories.get(names.join("\n"))?.columns ?? [];

/** Where the bucket of this upper bound begins: an eighth of an octave below, or a nanosecond. */
function floor(le) {
  if (le <= 16) return Math.max(0.5, le - 1);
  const octave = 2 ** Math.floor(Math.log2(le - 1));
  return le - octave / 8;
}

/** Colours from few to many, each distinct in lightness: viridis (dark first), and the same from light to dark. */
const VIRIDIS = [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]];

function colour(share, isDark) {
  const at = (isDark ? share : 1 - share) * (VIRIDIS.length - 1);
  const [from, to] = [VIRIDIS[Math.floor(at)], VIRIDIS[Math.ceil(at)]];
  return `rgb(${from.map((part, n) => Math.round(part + (to[n] - part) * (at % 1))).join(",")})`;
}

/** The drawing. */
export class HeatMap {
  constructor(axis) {
    Object.assign(this, { axis, all: [], columns: [], pointY: null });
    this.canvas = h("canvas", { role: "img" });
    this.over = s("svg");
    this.place = h("div.place", null, this.canvas, this.over);
    this.readout = h("p.readout");
    this.scale = h("p.legend");
    this.place.addEventListener("pointermove", (event) => (this.pointY = event.clientY - this.place.getBoundingClientRect().top), { capture: true });
    this.place.addEventListener("pointerleave", () => (this.pointY = null), { capture: true });
    this.element = h("div.heat", null, this.scale, this.place, this.readout);
    axis.listen(this.place);
    axis.drawn.add(this);
    new ResizeObserver(() => this.element.isConnected && this.element.clientWidth !== this.plot?.width && this.draw()).observe(this.element);
  }

  update(columns) {
    this.all = columns;
    this.draw();
  }

  draw() {
    const columns = this.all.filter((one) => one.toS > this.axis.fromS && one.fromS < this.axis.toS);
    this.columns = columns;
    const cells = columns.flatMap((one) => one.cells.map(([le, packets]) => [le, packets / (one.toS - one.fromS)]));
    const packets = columns.flatMap((one) => one.cells).reduce((all, [, some]) => all + some, 0);
    this.canvas.dataset.packets = packets;
    this.place.hidden = !cells.length;
    if (!cells.length) {
      fill(this.scale);
      const words = columns.length ? "no packets in this time" : "no packets in the last minute; the next epoch begins the map";
      return fill(this.readout, h("span.empty", null, words));
    }
    const bounds = cells.map(([le]) => le);
    const most = Math.max(...cells.map(([, one]) => one));
    const least = Math.min(...cells.map(([, one]) => one));
    const low = floor(Math.min(...bounds)), high = Math.max(...bounds);
    Object.assign(this, { low: Math.log2(low) - 0.25, high: Math.log2(high) + 0.25, most, least, packets });
    this.paint();
    this.mark();
  }

  paint() {
    const width = Math.max(280, this.element.clientWidth || 600), height = 220, ratio = devicePixelRatio || 1;
    Object.assign(this, { plot: { top: 4, bottom: 20, width, height } });
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.over.setAttribute(name, value);
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    this.canvas.style.setProperty("width", width + "px");
    this.canvas.style.setProperty("height", height + "px");
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const isDark = matches(this.canvas);
    const [left, right] = this.axis.sides(width);
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, height);
    pen.clip();
    for (const one of this.columns) {
      const [x0, x1] = [one.fromS, one.toS].map((atS) => this.axis.x(atS, width));
      for (const [le, packets] of one.cells) {
        const [y0, y1] = [this.y(le), this.y(floor(le))];
        pen.fillStyle = colour(this.share(packets / (one.toS - one.fromS)), isDark);
        pen.fillRect(Math.floor(x0), Math.floor(y0), Math.max(1, Math.ceil(x1) - Math.floor(x0)), Math.max(1, Math.ceil(y1) - Math.floor(y0)));
      }
    }
    pen.restore();
    this.axes(pen);
    this.legend(isDark);
  }

  /** How dense, on a scale of logarithms. */
  share(perS) {
    if (this.most <= this.least) return 1;
    return Math.log(perS / this.least) / Math.log(this.most / this.least);
  }

  y(ns) {
    const { top, bottom, height } = this.plot;
    return top + (1 - (Math.log2(ns) - this.low) / (this.high - this.low)) * (height - top - bottom);
  }

  axes(pen) {
    const { width, height } = this.plot;
    const [left, right] = this.axis.sides(width);
    pen.fillStyle = getComputedStyle(this.canvas).color;
    pen.font = "11px system-ui, sans-serif";
    const octaves = this.high - this.low;
    const marks = [];
    for (let ns = 1; ns <= 2 ** this.high; ns *= 10) {
      for (const step of octaves > 9 ? [1] : octaves > 4 ? [1, 3] : [1, 2, 5]) marks.push(ns * step);
    }
    pen.textAlign = "right";
    for (const ns of marks.filter((one) => Math.log2(one) >= this.low && Math.log2(one) <= this.high)) {
      pen.fillText(duration(ns).replace(/\.0+ /, " "), left - 6, Math.max(10, this.y(ns) + 4));
      pen.fillRect(left - 4, this.y(ns), 4, 1);
    }
    pen.textAlign = "center";
    for (const [x, text] of this.axis.ticks(width)) pen.fillText(text, Math.min(x, right - 12), height - 5);
  }

  legend(isDark) {
    const bar = h("canvas.bar", { width: 100, height: 10, "aria-hidden": "true" });
    const pen = bar.getContext("2d");
    for (let x = 0; x < 100; x++) {
      pen.fillStyle = colour(x / 99, isDark);
      pen.fillRect(x, 0, 1, 10);
    }
    fill(this.scale, h("span", null, rate(this.least)), bar, h("span", null, `${rate(this.most)} packets/s in a bucket (an eighth of an octave)`));
  }

  /** The cursor, and what is there. */
  mark() {
    if (!this.columns.length || !this.plot) return;
    const { axis, pointY: y } = this;
    fill(this.over, axis.marks(this.plot.width, this.plot.top, this.plot.height - this.plot.bottom));
    const column = axis.cursorS != null && this.columns.find((one) => axis.cursorS >= one.fromS && axis.cursorS < one.toS);
    this.say(column, column && y != null && column.cells.find(([le]) => y >= this.y(le) && y < this.y(floor(le))));
  }

  say(column, cell) {
    const spanS = this.columns.at(-1).toS - this.columns[0].fromS;
    const all = `${count(this.packets)} packets in ${spanS.toFixed(0)} s, since ${clock(this.columns[0].fromS)} UTC; move over the map to read it`;
    const one = column && `${clock(column.fromS)} to ${clock(column.toS)} UTC: ` + (cell
      ? `${count(cell[1])} packets took ${duration(Math.floor(floor(cell[0])))} to ${duration(cell[0])}`
      : `${count(column.cells.reduce((sum, [, packets]) => sum + packets, 0))} packets`);
    this.canvas.setAttribute("aria-label", `heat map of delays: ${all}`);
    fill(this.readout, one ?? all);
  }
}

/** Whether the page is dark: by the colour of its text. */
function matches(element) {
  const [red, green, blue] = getComputedStyle(element).color.match(/[\d.]+/g).map(Number);
  return red + green + blue > 382;
}
