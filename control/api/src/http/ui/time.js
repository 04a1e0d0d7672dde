// The time axis that all charts and heat maps share: which span they show, where the cursor is, whether time stands still.
// Times are in seconds since 1970.

import { fill, h, s } from "./dom.js";
import { clock } from "./units.js";

/** Spans to choose from, in seconds; the server has 60 buckets for each. */
export const SPANS = [[60, "minute"], [600, "ten minutes"], [3600, "hour"]];

/** Pixels beside every plot: the same for all, so that the same times stand above each other. */
const LEFT = 60, RIGHT = 14;

/** Shortest span while no part is chosen: that of a switch that has just started, in seconds. */
const YOUNG_MIN_S = 60;

/** Shortest span to zoom to, in seconds, and the shortest way of the pointer that counts as a drag, in pixels. */
const ZOOM_MIN_S = 5, DRAG_MIN = 5;

/** Steps between the marks of the axis, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

export class Axis {
  constructor() {
    Object.assign(this, { spanS: 600, endS: 0, beganS: -Infinity, range: null, isPaused: false, cursorS: null, isPinned: false, selection: null, onpause: null });
    /** What is drawn along it: `draw()` after a change of the span, `mark()` after one of the cursor. */
    this.drawn = new Set();
  }

  get fromS() {
    const rememberedS = Math.max(YOUNG_MIN_S, this.endS - this.beganS);
    return this.range ? this.range[0] : this.endS - Math.min(this.spanS, rememberedS);
  }

  get toS() {
    return this.range ? this.range[1] : this.endS;
  }

  /** Data up to this time are here, and none from before the other: the axis of a switch that has just started grows. */
  take(endS, beganS = -Infinity) {
    if (endS && !this.isPaused) Object.assign(this, { endS, beganS });
    if (this.element) this.sayWhen();
  }

  x(atS, width) {
    return LEFT + ((atS - this.fromS) / (this.toS - this.fromS)) * (width - LEFT - RIGHT);
  }

  at(x, width) {
    const share = (x - LEFT) / (width - LEFT - RIGHT);
    return this.fromS + Math.min(1, Math.max(0, share)) * (this.toS - this.fromS);
  }

  /** Left and right end of a plot of this width. */
  sides = (width) => [LEFT, width - RIGHT];

  redraw() {
    for (const one of this.drawn) one.draw();
    if (this.element) this.tell();
  }

  /** Moves the cursor. Once pinned, it stays until it is pinned elsewhere or let go. */
  point(atS, isPinned = false) {
    Object.assign(this, { cursorS: atS, isPinned });
    for (const one of this.drawn) one.mark();
  }

  /** Moves the cursor by a sixtieth of the span, and pins it. */
  step(by) {
    const stepS = (this.toS - this.fromS) / 60;
    const atS = (this.cursorS ?? this.toS - stepS / 2) + by * stepS;
    this.point(Math.min(this.toS, Math.max(this.fromS, atS)), true);
  }

  choose(spanS) {
    Object.assign(this, { spanS, range: null });
    this.pause(false);
  }

  /** Shows a part of the time, which stands still; null: the last part of the chosen span again, which goes on. */
  zoom(range) {
    this.range = range;
    this.pause(range != null);
  }

  /** Halves the span around the cursor, or doubles it. */
  scale(by) {
    const spanS = Math.max(ZOOM_MIN_S, (this.toS - this.fromS) * by);
    if (spanS >= this.spanS) return this.zoom(null);
    const middleS = this.cursorS ?? (this.fromS + this.toS) / 2;
    const fromS = Math.max(this.endS - this.spanS, Math.min(this.endS - spanS, middleS - spanS / 2));
    this.zoom([fromS, fromS + spanS]);
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    if (!isPaused) this.range = null;
    this.redraw();
    this.onpause?.();
  }

  /** The pointer over a plot: it moves the cursor, a click pins it, a drag zooms, a double click shows all again. */
  listen(element) {
    let from = null;
    const x = (event) => event.clientX - element.getBoundingClientRect().left;
    const at = (event) => this.at(x(event), element.clientWidth);
    element.addEventListener("pointerdown", (event) => event.button === 0 && (from = x(event)));
    element.addEventListener("pointermove", (event) => {
      const isDrag = from != null && event.buttons && Math.abs(x(event) - from) > DRAG_MIN;
      this.selection = isDrag ? [this.at(from, element.clientWidth), at(event)].sort((a, b) => a - b) : null;
      this.point(this.isPinned ? this.cursorS : at(event), this.isPinned);
    });
    element.addEventListener("pointerup", (event) => {
      const { selection } = this;
      Object.assign(this, { selection: null });
      if (from != null && selection) this.zoom(selection[1] - selection[0] > ZOOM_MIN_S ? selection : null);
      else if (from != null) this.point(at(event), !this.isPinned);
      from = null;
    });
    element.addEventListener("pointerleave", () => {
      Object.assign(this, { selection: null });
      from = null;
      if (!this.isPinned) this.point(null);
    });
    element.addEventListener("dblclick", () => this.zoom(null));
  }

  /** The cursor and what is selected, as lines over a plot. */
  marks(width, top, bottom) {
    const clip = (atS) => Math.min(width - RIGHT, Math.max(LEFT, this.x(atS, width)));
    const { cursorS, selection } = this;
    const isSeen = cursorS != null && cursorS >= this.fromS && cursorS <= this.toS;
    const x = isSeen && this.x(cursorS, width).toFixed(1);
    return [
      isSeen && s("line", { x1: x, x2: x, y1: top, y2: bottom, class: this.isPinned ? "cursor pinned" : "cursor", "data-s": cursorS }),
      selection && s("rect", { x: clip(selection[0]), y: top, width: clip(selection[1]) - clip(selection[0]), height: bottom - top, class: "selection" }),
    ].filter(Boolean);
  }

  /** Times to be written below a plot: `[x, text]`. */
  ticks(width) {
    const spanS = this.toS - this.fromS;
    const room = (step) => (width - LEFT - RIGHT) / (step < 60 ? 80 : 52);
    const stepS = STEPS.find((step) => spanS / step <= room(step)) ?? STEPS.at(-1);
    const found = [];
    for (let atS = Math.ceil(this.fromS / stepS) * stepS; atS <= this.toS; atS += stepS) {
      found.push([this.x(atS, width), clock(atS).slice(0, stepS < 60 ? 8 : 5)]);
    }
    return found;
  }

  /** What chooses the span, stops the time and says which time it is. */
  bar() {
    this.choices = h("span.choice", { role: "group", "aria-label": "time" });
    this.told = h("span.readout");
    this.element = h("div.time", null, this.choices, this.told);
    this.tell();
    return this.element;
  }

  tell() {
    const button = (name, isOn, onclick, tip) => h("button", { type: "button", "aria-pressed": String(isOn), onclick, title: tip }, name);
    fill(this.choices,
      SPANS.map(([spanS, name]) => button(name, !this.range && spanS === this.spanS, () => this.choose(spanS))),
      button(this.isPaused ? "continue" : "pause", this.isPaused, () => this.pause(!this.isPaused), "key p"));
    this.sayWhen();
  }

  sayWhen() {
    const still = this.isPaused ? `stands still since ${clock(this.endS)}; ` : "";
    fill(this.told, this.endS ? `${still}${clock(this.fromS)} to ${clock(this.toS)} UTC` : "");
  }
}
