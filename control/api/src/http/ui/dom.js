// Elements, and tables whose rows stay when their figures change. Data becomes text, never markup.

import { meaningOf } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** `h("td.num", {...}, "text")`. */
export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  return build(element, attributes, children);
}

/** The same in SVG. */
export const s = (tag, attributes, ...children) =>
  build(document.createElementNS(SVG, tag), attributes, children);

/** Puts these in the place of what an element holds. */
export const fill = (element, ...children) =>
  element.replaceChildren(...children.flat().filter((child) => child != null && child !== false));

/** A link to a view. */
export const to = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");

/** A framed part of a view with a heading. */
export function panel(heading, ...children) {
  const head = h("h2", null, heading);
  return h("section.panel", null, head, ...children);
}

/** A state: a mark whose shape says as much as its colour, and words. */
export function mark(level, ...words) {
  const marks = { good: "\u25cf", info: "\u25c6", warn: "\u25b2", bad: "\u25a0" };
  return h("span.mark." + level, null, h("span", { "aria-hidden": "true" }, marks[level]), " ", ...words);
}

/** Names and values, two columns. Values are `[name, text, number, class]`; the number is for tests. */
export function facts(list) {
  const lines = list.filter((line) => line && line[1] != null).map(([name, text, value, kind]) => [
    h("dt", null, name),
    h("dd" + (kind ? "." + kind : ""), { "data-f": name, "data-v": value }, text),
  ]);
  return h("dl", null, lines.flat());
}

/** Words that rows must contain to be shown: what the search says. */
export const search = { words: [] };

/** Whether a text contains all words of the search. */
export const isFound = (text) => search.words.every((word) => text.toLowerCase().includes(word));

/** A table. Columns are `{ name, of, low, left, tip, sort }`: `of` makes of a row `{ text, v, kind, node }` or nothing. With
`all`, the search does not choose among the rows, because the server did. */
export class Table {
  constructor(columns, { empty = "none", open, key, order, all } = {}) {
    Object.assign(this, { columns, empty, open, all, key: key ?? ((row) => row.key), rows: new Map() });
    this.order = order ?? { column: null, down: true };
    this.body = h("tbody");
    this.heads = columns.map((column) => this.heading(column));
    const table = h("table", null, h("thead", null, h("tr", null, this.heads)), this.body);
    this.element = h("div.scroll", null, table);
  }

  heading(column) {
    const kind = (column.left ? ".left" : "") + (column.low ? ".low" + column.low : "");
    const inside = column.sort
      ? h("button", { type: "button", onclick: () => this.sortBy(column) }, column.name)
      : column.name;
    return h("th" + kind, { scope: "col", title: column.tip ?? meaningOf(column.name) }, inside);
  }

  sortBy(column) {
    const same = this.order.column === column.name;
    this.order.column = column.name;
    this.order.down = same ? !this.order.down : true;
    this.onorder?.(column);
    if (this.last) this.update(this.last);
  }

  /** The rows in the chosen order. */
  sorted(rows) {
    const column = this.columns.find((one) => one.name === this.order.column);
    if (!column || column.sort === "server") return rows;
    const rank = (row) => column.of(row)?.v ?? -Infinity;
    const sign = this.order.down ? -1 : 1;
    return [...rows].sort((a, b) => sign * (rank(a) - rank(b)) || 0);
  }

  /** The rows that the search finds, by their key and the texts of columns that are no numbers. */
  found(rows) {
    if (this.all || !search.words.length) return rows;
    const texts = this.columns.filter((column) => column.left);
    return rows.filter((row) => isFound([this.key(row), ...texts.map((column) => column.of(row)?.text)].join(" ")));
  }

  update(rows) {
    this.last = rows;
    this.columns.forEach((column, at) => {
      const is = column.sort && this.order.column === column.name;
      if (is) this.heads[at].setAttribute("aria-sort", this.order.down ? "descending" : "ascending");
      else this.heads[at].removeAttribute("aria-sort");
    });
    const kept = new Map();
    const lines = this.sorted(this.found(rows)).map((row) => {
      const key = this.key(row);
      const line = this.rows.get(key) ?? this.line(key);
      kept.set(key, line);
      this.columns.forEach((column, at) => put(line.cells[at], column.of(row, line.element)));
      const where = this.open?.(row);
      if (where && line.link.getAttribute("href") !== where) line.link.setAttribute("href", where);
      return line.element;
    });
    this.rows = kept;
    if (!lines.length) lines.push(h("tr.empty", null, h("td", { colspan: this.columns.length }, rows.length ? "nothing here is like the search" : this.empty)));
    place(this.body, lines);
  }

  line(key) {
    const cells = this.columns.map((column) => {
      const kind = (column.left ? ".left" : "") + (column.low ? ".low" + column.low : "");
      return h("td" + kind, { "data-f": column.name });
    });
    const element = h("tr", { "data-key": key }, cells);
    const line = { element, cells };
    if (this.open) {
      line.link = h("a.open");
      cells[0].append(line.link);
      cells[0].link = line.link;
      element.addEventListener("click", (event) => {
        if (!event.target.closest("a") && !String(getSelection())) line.link.click();
      });
    }
    return line;
  }
}

/** Puts a value into a cell; nothing is a dash. */
function put(cell, value) {
  const { text = "-", v, kind = "", node } = value ?? {};
  const target = cell.link ?? cell;
  if (node) {
    if (target.firstChild !== node) target.replaceChildren(node);
  } else if (target.textContent !== text || target.firstElementChild) target.textContent = text;
  if (v == null) delete cell.dataset.v;
  else cell.dataset.v = v;
  if (cell.kind !== kind) {
    cell.classList.remove(...(cell.kind ?? "").split(" ").filter(Boolean));
    cell.classList.add(...kind.split(" ").filter(Boolean));
    cell.kind = kind;
  }
}

/** Puts lines in this order, and moves only those that are not there: focus stays. */
function place(body, lines) {
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  lines.forEach((line, at) => {
    if (body.children[at] !== line) body.insertBefore(line, body.children[at] ?? null);
  });
  while (body.children.length > lines.length) body.lastChild.remove();
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

/** A cell with a number and how it is written. */
export const cell = (v, write, kind) => (v == null ? undefined : { text: write(v), v, kind });
