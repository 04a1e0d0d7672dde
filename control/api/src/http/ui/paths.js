// Of a station: what is risen, a path's segments with what is usual of each, and a flow hop by hop.

import { path, serverNow } from "./api.js";
import { Table, cell, fill, h, mark, panel, to } from "./dom.js";
import { picture, reversed } from "./story.js";
import { ago, count, counted, duration, percent } from "./units.js";

/** A delay, or a share of packets. */
export const amount = (signal, value) => (signal === "loss" ? percent(value) : duration(value));

export const segmentLink = (one) => to("segments", one.switch, one.kind, one.from, one.to, one.class);

/** All rises. */
export const risen = () => new Table([
  { name: "segment", left: true, of: (row) => ({ text: row.title + (row.class === "all" ? "" : ` ${row.class}`), kind: "slow" }) },
  { name: "of", left: true, of: (row) => ({ text: row.signal }) },
  { name: "usual", low: 1, of: (row) => cell(row.usual, (value) => amount(row.signal, value)) },
  { name: "now", of: (row) => cell(row.now, (value) => amount(row.signal, value), "bad") },
  { name: "rise", low: 1, of: (row) => cell(row.rise, (value) => `+${amount(row.signal, value)}`) },
  { name: "sure", low: 1, tip: "probability that at least half of the rise is there", of: (row) => cell(row.confidence, (share) => `${(share * 100).toFixed(0)} %`) },
  { name: "since", tip: "time since it rose", of: (row) => cell(row.since_unix_s, (at) => ago(serverNow - at)) },
], { key: (row) => [row.title, row.class, row.signal].join("\n"), open: segmentLink });

const chain = () => {
  const level = (field, write) => (row) => cell(row.level?.[field], write);
  return new Table([
    { name: "segment", left: true, of: (row) => ({ text: row.title, kind: row.isCause ? "slow" : "" }) },
    { name: "mean", of: level("mean_ns", duration) },
    { name: "\u00b198%", of: level("bound_ns", (ns) => (ns > 0 ? duration(ns) : "exact")) },
    { name: "usual", of: (row) => (row.is_ready === false ? { text: "learning" } : cell(row.level?.usual_ns, duration)) },
    { name: "stddev", low: 2, of: (row) => cell(row.stddev_ns, duration) },
    { name: "p99", low: 1, of: (row) => cell(row.p99_ns, duration) },
    { name: "loss", low: 1, of: level("loss", percent) },
    { name: "usual loss", low: 1, of: level("usual_loss", percent) },
    { name: "age", low: 2, of: (row) => cell(row.age_s, (s) => `${s.toFixed(1)} s`) },
  ], { key: (row) => row.key, empty: "nothing measures this path", all: true });
};

/** One path, with its causes in words. */
function onePath(one, number, of) {
  const rows = chain();
  const causes = new Set(one.causes.map((cause) => cause.title));
  const hops = one.chain.map((hop, n) => ({ ...hop, key: `${n} ${hop.title}`, isCause: causes.has(hop.title) }));
  if (one.sum) hops.push({ key: "sum", title: "sum", level: one.sum });
  if (one.end_to_end) hops.push({ ...one.end_to_end, key: "end to end", title: `end to end: ${one.end_to_end.title}` });
  rows.update(hops);
  const route = one.switches.join(" > ");
  return panel(of > 1 ? `path ${number} of ${of}: ${route}` : route, rows.element, h("div.words", null, wordsOf(one).map((word) => h("p", null, word))));
}

function wordsOf(one) {
  const signal = (name) => (name === "loss" ? "losses' rise" : "delay's rise");
  const causes = one.causes.map((cause) => mark("bad", `${cause.share_percent.toFixed(0)} % of the ${signal(cause.signal)} is in ${cause.title}: ` +
    `+${amount(cause.signal, cause.rise)} since ${ago(serverNow - cause.since_unix_s)}, ${(cause.confidence * 100).toFixed(0)} % sure`));
  const rest = [[one.unexplained_share, "delay's"], [one.unexplained_loss_share, "losses'"]].filter(([share]) => share > 0)
    .map(([share, what]) => mark("warn", `${(share * 100).toFixed(0)} % of the ${what} end-to-end rise is in no segment that is measured`));
  const isReady = one.chain.every((hop) => hop.is_ready);
  const none = one.causes.length ? [] : [mark(isReady ? "good" : "info", isReady ? "No segment is above the usual level."
    : "No segment is known to be above the usual level; the history of some is too short to tell.")];
  const difference = one.difference_ns == null ? [] : [mark(one.is_difference_explained ? "good" : "warn",
    `end to end is the sum ${one.difference_ns < 0 ? "-" : "+"}${duration(Math.abs(one.difference_ns))} (bounds: ${duration(one.difference_bound_ns)}), ` +
    (one.is_difference_explained ? "which the bounds explain" : "which is unexplained"))];
  const faults = one.faults.map((fault) => mark("warn", `measuring: ${fault.place}: ${fault.words}`));
  const uncovered = one.uncovered.map((part) => mark("info", `not measured${part.is_suspect ? ", and may be the cause" : ""}: ${part.title}: ${part.cover}`));
  return [...causes, ...rest, ...none, ...difference, ...faults, ...uncovered];
}

/** A field of a form that asks when it is changed. */
function field(state, name, context, attributes) {
  const input = h("input", { ...attributes, value: state[name], "aria-label": name, placeholder: attributes.placeholder ?? name, spellcheck: "false", autocomplete: "off" });
  input.addEventListener("input", () => (state[name] = input.value.trim(), context.soon(400)));
  return input;
}

/** Most pairs of switches in the list. */
const PAIRS_MAX = 500;

/** Pairs of switches to choose a path from. */
const pairs = () => new Table([
  { name: "from", left: true, of: (row) => ({ text: row.from }) },
  { name: "to", left: true, of: (row) => ({ text: row.to }) },
], { key: (row) => `${row.from}\n${row.to}`, open: (row) => to("paths", row.from, row.to), empty: "no switch reports to another: a path needs two" });

/** Why a path is as it is. */
export const view = {
  asks([from, end], { path: state }) {
    // The address says from where to where, until somebody writes something else.
    const at = `${from}\n${end}`;
    if (from && state.at !== at) Object.assign(state, { at, from, to: end ?? "" });
    const switches = ["switches", "api/v1/switches", 30];
    if (!state.from || !state.to) return [switches];
    return [switches, ["paths", path("blame", { from: state.from, to: state.to, class: state.class }), 1]];
  },
  make(root, _, context) {
    const names = h("datalist", { id: "names" });
    const fields = [["from", { list: "names", placeholder: "edge-1:lan" }], ["to", { list: "names", placeholder: "edge-2" }], ["class", { placeholder: "all classes" }]]
      .map(([name, attributes]) => h("label", null, name, " ", field(context.path, name, context, attributes)));
    const list = h("div.paths.stack");
    const other = h("a.other", null, "the other direction");
    const choices = pairs();
    root.append(panel("a path", h("div.search", null, fields, names, other)), list, panel("paths to choose from", choices.element));
    return ({ switches, paths }) => {
      const options = switches.switches.filter((one) => one.silent_since_unix_s == null).map((one) => one.switch);
      if (names.childElementCount !== options.length) fill(names, options.map((name) => h("option", { value: name })));
      const all = options.flatMap((from) => options.filter((one) => one !== from).map((end) => ({ from, to: end })));
      choices.update(choices.found(all).slice(0, PAIRS_MAX));
      const { from, to: end } = context.path;
      other.hidden = !from || !end;
      other.setAttribute("href", to("paths", end, from));
      if (!from || !end || !paths) return fill(list, h("p.empty", null, "From where to where? Choose below, or write a switch, or a switch and a port: edge-1, edge-1:lan."));
      fill(list, paths.paths.map((one, n) => onePath(one, n + 1, paths.paths.length)), paths.is_cut && h("p.note", null, "There are more paths."));
    };
  },
  refused: (root, words) => fill(root.querySelector(".paths"), mark("warn", words)),
};

const hops = () => new Table([
  { name: "hop", left: true, of: (hop) => ({ text: hop.title, kind: hop.isSlowest ? "slow" : "" }) },
  { name: "of", left: true, of: (hop) => ({ text: hop.is_of_flow ? "flow" : "all" }) },
  { name: "packets", low: 1, of: (hop) => cell(hop.packets, count) },
  { name: "lost", low: 1, of: (hop) => cell(hop.lost, String, hop.lost > 0 ? "bad" : "") },
  { name: "loss", tip: "share of these packets that was lost", of: (hop) => cell(lossOf(hop), percent, hop.lost > 0 ? "bad" : "") },
  { name: "mean", of: (hop) => cell(hop.mean_ns, duration) },
  { name: "stddev", low: 1, of: (hop) => cell(hop.stddev_ns, duration) },
  { name: "p99", low: 1, of: (hop) => cell(hop.p99_ns, duration) },
  { name: "age", low: 2, of: (hop) => cell(hop.age_s, (s) => `${s.toFixed(1)} s`) },
], { key: (hop) => hop.key, all: true });

/** Packets of a flow are those that left, packets of a wire those that entered. */
const lossOf = ({ lost, packets, is_of_flow: isOfFlow }) => (lost == null ? null : Math.max(0, lost) / Math.max(1, packets + (isOfFlow ? lost : 0)));

/** The flows that switches report. */
export const flows = {
  asks: (_, { text }) => [["flows", path("flows", { contains: text }), 2]],
  make(root, _, context) {
    const rows = new Table([
      { name: "flow", left: true, of: (row) => ({ text: row.flow, kind: "name" }) },
      { name: "seen", low: 1, sort: true, of: (row) => cell(row.segments, count) },
      { name: "packets", sort: true, tip: "the most packets that a switch had of it in its last report", of: (row) => cell(row.packets, count) },
      { name: "lost", sort: true, tip: "packets lost in all of these switches", of: (row) => cell(row.lost, count, row.lost ? "bad" : "") },
      { name: "delay", sort: true, of: (row) => cell(row.mean_ns, duration) },
    ], { key: (row) => row.flow, open: (row) => to("flow", row.flow), empty: "no switch reports a flow like this: see report.top_flows of the switches", all: true });
    const note = h("p.note");
    root.append(panel("flows, as switches report them", rows.element, note));
    return ({ flows: { flows: list, matching } }) => {
      rows.update(list);
      fill(note, matching > list.length ? `the first ${list.length} of ${matching} flows` : counted(matching, "flow"),
        context.text.includes(">") && !list.length && h("a", { href: to("flow", context.text) }, " this flow, hop by hop"));
    };
  },
};

/** A flow over the switches that saw it. */
export const flow = {
  asks: ([name]) => [["flow", path("flow", { flow: name }), 1]],
  make(root, [name]) {
    const rows = hops();
    const [way, note, words] = [h("div"), h("div.words"), h("div.words.answer")];
    const other = reversed(name);
    root.append(
      h("p.trail", null, h("a", { href: "#/flows" }, "flows"), " \u203a ", h("b.name", null, name), other && [" \u00b7 ", h("a.other", { href: to("flow", other) }, "the other direction")]),
      words, panel("its path", way, note), panel("hop by hop", rows.element));
    return ({ flow: answer }) => {
      fill(words);
      const list = answer.hops.map((hop, n) => ({ ...hop, key: `${n} ${hop.title}`, isSlowest: n === answer.slowest }));
      fill(way, picture(list.map((hop) => ({ ...hop, loss: lossOf(hop), note: hop.is_of_flow ? "" : "all packets" })), Math.max(280, way.clientWidth || 600)));
      rows.update(list);
      const slowest = answer.hops[answer.slowest];
      fill(note,
        slowest && h("p", null, mark("info", `${answer.slowest_percent.toFixed(0)} % of the delay is in ${slowest.title}.`)),
        answer.hops.some((hop) => !hop.is_of_flow) && h("p", null, "all packets: figures of all packets there, not of the flow alone."),
        !answer.is_ordered && h("p", null, "No link between some of the switches is known: their order is by name."));
    };
  },
  refused: (root, words) => fill(root.querySelector(".answer"), mark("warn", words)),
};
