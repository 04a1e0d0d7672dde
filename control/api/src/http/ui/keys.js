// Keys, the list of them, and the choice of dark or light.

import { fill, h } from "./dom.js";

const THEME = "vernier-theme";

let views = [], axis = null;

/** Listens for keys. */
export function listen(to) {
  ({ views, axis } = to);
  setTheme(stored());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches("input, select, textarea");
    if (isTyping) {
      if (event.key === "Escape") event.target.blur();
      else if (event.key === "ArrowDown" || event.key === "Enter") move(event, "first");
      return;
    }
    press(event, to);
  });
}

function press(event, { show }) {
  const number = Number(event.key);
  if (number >= 1 && number <= views.length) show(views[number - 1].id);
  else if (event.key === "/") focusSearch(event);
  else if (event.key === "?") help();
  else if (event.key === "t") theme();
  else if (event.key === "Escape") back();
  else if (event.key === "p") axis.pause(!axis.isPaused);
  else if (event.key === "+") axis.scale(0.5);
  else if (event.key === "-") axis.scale(2);
  else if (event.key === "ArrowLeft") axis.step(-1);
  else if (event.key === "ArrowRight") axis.step(1);
  else if (event.key === "ArrowDown" || event.key === "j") move(event, 1);
  else if (event.key === "ArrowUp" || event.key === "k") move(event, -1);
  else if (event.key === "Home" || event.key === "g") move(event, "first");
  else if (event.key === "End" || event.key === "G") move(event, "last");
}

/** To the search. */
function focusSearch(event) {
  event.preventDefault();
  const search = document.getElementById("search");
  search.focus();
  search.select();
}

/** Moves the focus among the rows that can be opened. */
function move(event, by) {
  const rows = [...document.querySelectorAll("main a.open")].filter((row) => row.offsetParent);
  if (!rows.length) return;
  event.preventDefault();
  const at = rows.indexOf(document.activeElement);
  const next = by === "first" ? 0 : by === "last" ? rows.length - 1 : at < 0 ? 0 : at + by;
  rows[Math.max(0, Math.min(rows.length - 1, next))].focus();
}

/** Lets the cursor go, else shows all of the time again, else leads from one thing to its list. */
function back() {
  if (axis.isPinned) return axis.point(null);
  if (axis.range) return axis.zoom(null);
  const trail = document.querySelector("main .trail a");
  if (trail) location.hash = trail.getAttribute("href");
}

/** The columns of the view, and the list of keys. */
export function help() {
  const list = [
    [`1 to ${views.length}`, views.map((view) => view.label).join(", ")],
    ["\u2191 \u2193, j k", "select a row"],
    ["Home End, g G", "the first row, the last one"],
    ["Enter", "open the selected row"],
    ["\u2190 \u2192", "move the cursor of the charts, and pin it; so does a click"],
    ["+ -", "half of the time around the cursor, or twice as much; a drag shows what it covers"],
    ["p", "time stands still, or goes on"],
    ["/", "search"],
    ["Escape", "let the cursor go, all of the time, back to the list"],
    ["t", "dark, light, or as the system"],
    ["?", "these keys"],
  ];
  const dialog = document.getElementById("help");
  const lines = list.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]);
  const meanings = new Map([...document.querySelectorAll("main th[title]")].map((one) => [one.textContent, one.title]));
  const columns = [...meanings].map(([name, what]) => [h("dt", null, name), h("dd", null, what)]);
  fill(dialog, h("form", { method: "dialog" }, h("h2", null, "keys"), h("dl", null, lines.flat()),
    columns.length > 0 && h("h2", null, "columns of this view"), h("dl", null, columns.flat()), h("button", null, "close")));
  if (!dialog.open) dialog.showModal();
}

/** Without a place to keep it the choice holds for this page. */
function stored() {
  try {
    return localStorage.getItem(THEME) ?? "";
  } catch {
    return "";
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // It is not kept.
  }
}

/** The next of: as the system, dark, light. */
export function theme() {
  const all = ["", "dark", "light"];
  setTheme(all[(all.indexOf(document.documentElement.dataset.theme) + 1) % all.length]);
}
