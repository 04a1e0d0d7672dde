// The page of a switch or a station: which view is shown, what it asks for and how often, the search, keys, the token, and what
// is said where nobody answers.

import { Trouble, get, recall, serverNow, token } from "./api.js";
import { fill, h, mark, search } from "./dom.js";
import { flowState } from "./flows.js";
import * as keys from "./keys.js";
import * as station from "./station.js";
import * as switches from "./switch.js";
import { Axis } from "./time.js";
import { clock, uptime } from "./units.js";

const of = document.documentElement.dataset.of === "station" ? station : switches;
const [head, nav, banner, main, foot, input] = ["head", "nav", "banner", "main", "foot", "search"].map((id) => document.getElementById(id));

/** How often views are drawn anew; where nobody answers, how often it is tried again. */
const TICK_MS = 1000, AGAIN_MS = 2000, TICK_MAX_MS = 10_000;

/** How often another view's answers are read, for the time when there are none. */
const AHEAD_MS = 5000;

/** What the views share: what the user chose. */
const context = { axis: new Axis(), flows: flowState(), path: { from: "", to: "", class: "" }, text: "", soon: () => soon() };

/** What is searched for, by the view. */
const texts = new Map();

/** The view that is shown, with its answers by name. */
let shown = null;
let timer = 0;
/** When the server answered last, by this page's clock and by its own; and the last epoch, since when. */
const seen = { at: null, unixS: null, epoch: null, epochAt: 0, intervalS: 1, trouble: null };
/** The view whose answers are read ahead next, and when they were. */
const ahead = { next: 0, at: -Infinity };

/** A part of the address; as it stands where it is not encoded as it should be. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The view of the address: its name and what is behind it. */
function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  return { name: parts[0] || of.VIEWS[0].id, rest: parts.slice(1) };
}

function show() {
  const { name, rest } = route();
  const view = of.find(name, rest) ?? of.VIEWS[0].view;
  const parent = of.VIEWS.find(({ id }) => id === of.parentOf(name)) ?? of.VIEWS[0];
  if (view === parent.view && rest.length && parent.search) texts.set(parent.id, rest.join(" "));
  const root = h("div.view", { "data-view": name, "data-at": location.hash });
  shown = { view, rest, root, parent, answers: {}, asked: {}, update: null };
  context.axis.drawn.clear();
  fill(main, root);
  // Text that is being typed while the view changes is for the new view.
  if (document.activeElement === input) texts.set(parent.id, input.value);
  find(texts.get(parent.id) ?? "");
  if (document.activeElement !== input) input.value = context.text;
  input.placeholder = parent.search ?? "search: a part of a name";
  const entries = of.VIEWS.map(({ id, label }, n) => h("a", {
    href: `#/${id}`, "aria-current": parent.id === id ? "page" : null, "aria-keyshortcuts": String(n + 1),
  }, h("kbd", null, n + 1), " ", label));
  fill(nav, entries);
  nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  soon(0);
}

/** Searches for a text: tables show the rows that contain its words, and lists of the server are asked for. */
function find(text) {
  context.text = text.trim();
  search.words = context.text.toLowerCase().split(/\s+/).filter(Boolean);
}

function searched() {
  const { parent, view } = shown;
  texts.set(parent.id, input.value);
  // One thing has nothing to choose from: the list of such things has.
  if (view !== parent.view) return void (location.hash = `#/${parent.id}`);
  if (parent.search && route().rest.length) history.replaceState(null, "", `#/${parent.id}`);
  find(input.value);
  if (parent.search) soon();
  else shown.update?.(shown.answers);
}

/** Asks soon: at once, or when typing has stopped. */
function soon(ms = 150) {
  if (shown) shown.asked = {};
  clearTimeout(timer);
  timer = setTimeout(tick, ms);
}

/** Asks for what is due, all at once. Where there is no answer, the last one takes its place; why, is what is returned. */
async function ask(one) {
  const now = performance.now();
  const asks = context.axis.isPaused && one.update ? [] : one.view.asks(one.rest, context);
  const due = [...of.ALWAYS, ...asks].filter(([name, where, everyS]) => {
    const last = one.asked[name];
    return !last || last.where !== where || now - last.at >= everyS * 1000 - 100;
  });
  let trouble = null;
  await Promise.all(due.map(async ([name, where]) => {
    try {
      one.answers[name] = await get(where);
      one.asked[name] = { where, at: now };
    } catch (error) {
      if (!(error instanceof Trouble) || [400, 401, 403, 404].includes(error.status)) throw error;
      trouble ??= error;
      one.answers[name] = recall(where) ?? one.answers[name];
    }
  }));
  one.isWhole = one.update != null || [...of.ALWAYS, ...one.view.asks(one.rest, context)].every(([name]) => one.answers[name]);
  return trouble;
}

/** Draws the answers; while time stands still, only those of a view that has none yet. */
function draw(one) {
  if (one.update && context.axis.isPaused) return;
  one.update ??= one.view.make(one.root, one.rest, context);
  one.update(one.answers);
}

async function tick() {
  clearTimeout(timer);
  const one = shown;
  const began = performance.now();
  let next = TICK_MS;
  try {
    const trouble = await ask(one);
    if (one !== shown) return;
    if (one.isWhole) draw(one);
    else fill(one.root, h("p.empty", null, "No figures of this view had been read before."));
    if (trouble) throw trouble;
    note(one.answers);
    next = Math.max(TICK_MS, Math.min(TICK_MAX_MS, seen.intervalS * 1000), 5 * (performance.now() - began));
    readAhead();
  } catch (error) {
    if (one !== shown) return;
    next = AGAIN_MS;
    if (fails(one, error)) return;
  }
  say();
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(tick, Math.min(next, TICK_MAX_MS));
}

/** Reads what the other views would show: all once the page was opened, then one of them every few seconds. */
function readAhead() {
  if (performance.now() - ahead.at < AHEAD_MS) return;
  const views = ahead.at > 0 ? [of.VIEWS[ahead.next++ % of.VIEWS.length]] : of.VIEWS;
  ahead.at = performance.now();
  const others = views.filter(({ view }) => view !== shown.view);
  const asks = others.flatMap(({ view }) => view.asks([], { ...context, text: "" }).map(([, where]) => where));
  // What fails here is asked for again by the view itself.
  for (const where of new Set(asks)) if (!Object.values(shown.asked).some((one) => one.where === where)) get(where).catch(() => {});
}

/** Notes that the server answered, and its epoch. */
function note(answers) {
  const { name, epoch, intervalS, parts } = of.summary(answers);
  Object.assign(seen, { at: performance.now(), unixS: serverNow, intervalS, trouble: null });
  if (epoch !== seen.epoch) Object.assign(seen, { epoch, epochAt: seen.at });
  document.body.dataset.epoch = epoch ?? "";
  document.title = `${name} \u2013 Vernier`;
  fill(head, parts, context.axis.isPaused && mark("warn", "stands still: p goes on"));
}

/** What is done where there is no answer; true where nothing is asked again by itself. */
function fails(one, error) {
  if (!(error instanceof Trouble)) {
    // A fault of this page: it is seen in the console, and the next answer may be drawn.
    reportError(error);
    seen.trouble = new Trouble(-1, error.message);
    return false;
  }
  if (error.status === 401) {
    askToken();
    return true;
  }
  // A question that the server refuses: it lives.
  if (error.status === 400 || error.status === 404) {
    seen.trouble = null;
    seen.at = performance.now();
    one.update ??= one.view.make(one.root, one.rest, context);
    if (one.view.refused) one.view.refused(one.root, error.message);
    else fill(one.root, mark("warn", error.message));
    return false;
  }
  seen.trouble = error;
  return false;
}

/** The line above the view, where something is wrong with the answers as such. */
function say() {
  const now = performance.now();
  const { trouble } = seen;
  // By answers, not by time: on a slow machine they are far apart.
  const still = of.EPOCHS && seen.epoch != null && seen.at - seen.epochAt > 3000 * seen.intervalS + 2000;
  const failed = trouble && (trouble.status < 0 ? "fault" : trouble.status ? "busy" : "gone");
  const state = failed ?? (still ? "still" : "live");
  document.body.dataset.state = state;
  banner.hidden = state === "live";
  if (state === "live") return;
  const since = seen.at == null ? "It has not answered yet" : `Last answer ${clock(seen.unixS)} UTC, ${uptime((now - seen.at) / 1000)} ago`;
  const epoch = shown.root.dataset.epoch ?? seen.epoch;
  const rest = epoch == null ? "" : ` What is shown is of epoch ${epoch}.`;
  const words = {
    gone: `NO ANSWER from this ${of.WHAT} (${trouble?.message}). ${since}.${rest} It is asked again every ${AGAIN_MS / 1000} s.`,
    busy: `This ${of.WHAT} answers, but not this: ${trouble?.message} (${trouble?.status}). It is asked again every ${AGAIN_MS / 1000} s.`,
    fault: `A fault of this page: ${trouble?.message}. Please report it with what the browser's console says.`,
    still: `No epoch has closed for ${uptime((now - seen.epochAt) / 1000)}: figures are old.`,
  };
  if (banner.textContent.slice(2) !== words[state]) fill(banner, mark("bad", words[state]));
}

/** Asks for the API's token. It stays in this tab. */
function askToken() {
  const refused = token.get() != null;
  token.drop();
  document.body.dataset.state = "token";
  banner.hidden = true;
  const field = h("input", { type: "password", name: "token", "aria-label": "token", autocomplete: "off", required: true });
  const form = h("form.panel.token", null,
    h("h2", null, `This ${of.WHAT} wants its token`),
    h("p", null, "The line in the file http.token_file of its configuration. This tab keeps it until it is closed, and sends it to this server only."),
    refused && h("p", null, mark("bad", "That token was not accepted.")),
    h("p", null, field, " ", h("button", { type: "submit" }, "open")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    show();
  });
  fill(main, form);
  field.focus();
}

context.axis.onpause = () => soon(0);
input.addEventListener("input", searched);
keys.listen({ views: of.VIEWS, show: (id) => (location.hash = `#/${id}`), axis: context.axis });
fill(foot, "1 to ", of.VIEWS.length, " views \u00b7 / search \u00b7 \u2191 \u2193 Enter rows \u00b7 \u2190 \u2192 cursor \u00b7 + \u2212 zoom \u00b7 p pause \u00b7 ",
  h("button", { type: "button", onclick: keys.help }, "? help"), " \u00b7 ", h("button", { type: "button", onclick: keys.theme }, "t colours"),
  " \u00b7 ", h("a", { href: "ui/docs/ui.md" }, "documentation"), " \u00b7 ", h("a", { href: "ui/docs/concepts.md" }, "concepts"),
  " \u00b7 ", h("a", { href: "metrics" }, "metrics"), " \u00b7 times are UTC");
addEventListener("hashchange", show);
document.addEventListener("visibilitychange", () => document.hidden || soon(0));
// What is shown may be old before the next answer.
setInterval(() => document.hidden || document.body.dataset.state === "token" || say(), 1000);
show();
