// Flows: the list with its search, and the story of one.

import { path } from "./api.js";
import { Chart } from "./charts.js";
import { Table, cell, facts, fill, h, mark, panel, to } from "./dom.js";
import { bytes, count, duration, title, uptime } from "./units.js";

/** Flows of a page. */
const LIMIT = 100;

/** What the search asks of the API: prefixes, ports, names of ports and classes, and else a part of the name. */
export function parse(text) {
  const asked = {}, rest = [];
  const words = text.trim().replace(/\bport\s+(?=\d)/gi, ":").split(/\s+/).filter(Boolean);
  for (const word of words) {
    const [, key, value] = /^(in|out|class|state|scope)=(.+)$/.exec(word) ?? [];
    const names = { in: "ingress", out: "egress", class: "class", state: "state", scope: "scope" };
    if (key) asked[names[key]] = value;
    else if (/^[0-9a-f.:]+\/\d+$/i.test(word)) asked.prefix = word;
    else if (/^:?\d{1,5}$/.test(word)) asked.port = word.replace(":", "");
    else rest.push(word);
  }
  return rest.length ? { ...asked, contains: rest.join(" ") } : asked;
}

const segmentOf = (flow) => title(flow.ingress, flow.egress, flow.class);
const linkOf = (name) => to("flow", name);

/** Whether a text is the whole name of a flow, of which the sketch can say something, too. */
const isName = (text) => /^\S+>\S+\/\w+$/.test(text) || /^#[0-9a-f]{16}$/i.test(text);

/** The API's name of the order of a column. */
const ORDERS = { packets: "packets", lost: "lost", mean: "mean", stddev: "stddev", p99: "p99", estimate: "estimate", "\u00b198%": "bound" };

function columns(end) {
  const estimate = (flow, v) => {
    const within = flow.estimate?.is_within_bound;
    return cell(v, duration, within === true ? "good" : within === false ? "estimate" : "");
  };
  const ago = (flow) => (end.unixS == null ? 0 : Math.max(0, end.unixS - flow.last_seen_unix_s));
  const columns = [
    { name: "flow", left: true, of: (flow) => ({ text: flow.flow, kind: "name" }) },
    { name: "segment", left: true, low: 1, of: (flow) => ({ text: segmentOf(flow) + (flow.is_on_wire ? " (wire)" : "") }) },
    { name: "packets", of: (flow) => cell(flow.last.packets, count) },
    { name: "lost", of: (flow) => cell(flow.last.lost_packets, count, flow.last.lost_packets ? "bad" : "") },
    { name: "mean", of: (flow) => cell(flow.last.mean_ns, duration) },
    { name: "stddev", low: 2, of: (flow) => cell(flow.last.stddev_ns, duration) },
    { name: "p99", low: 1, tip: "of flows with series of their own", of: (flow) => cell(flow.quantiles?.p99_ns, duration) },
    { name: "estimate", low: 1, of: (flow) => estimate(flow, flow.estimate?.mean_ns) },
    { name: "\u00b198%", low: 2, tip: "half-width of the nominal 98 % interval; -: the error is not known; !: the true mean is outside", of: (flow) => estimate(flow, flow.estimate?.bound_ns) },
    { name: "by", low: 2, left: true, of: (flow) => ({ text: flow.estimate?.method ?? "-" }) },
    { name: "ago", low: 1, of: (flow) => cell(ago(flow), uptime) },
  ];
  return columns.map((column) => (ORDERS[column.name] ? { ...column, sort: "server" } : column));
}

/** The list. */
export const list = {
  asks: (_, { flows }) => {
    const { text, order, down, limit } = flows;
    const asked = { sort: ORDERS[order], ascending: down ? "" : "true", limit, ...parse(text) };
    return [["flows", path("flows", asked), 0]];
  },
  make(root, _, context) {
    const state = context.flows;
    const search = h("input", {
      id: "search", type: "search", value: state.text, spellcheck: "false", autocomplete: "off", "aria-label": "search flows",
      placeholder: "10.1.0.0/16  :443  tcp  in=east  class=gold",
      oninput: () => (state.text = search.value, context.soon()),
    });
    const end = {};
    const rows = new Table(columns(end), {
      empty: "no flow is like this", key: (flow) => [flow.flow, flow.ingress, flow.egress, flow.class].join("\n"),
      open: (flow) => linkOf(flow.flow), order: { column: state.order, down: state.down },
    });
    rows.onorder = () => {
      [state.order, state.down] = [rows.order.column, rows.order.down];
      context.soon();
    };
    const note = h("p.note");
    root.append(panel("flows", h("div.search", null, search), rows.element, note));
    return ({ flows, status }) => {
      root.dataset.epoch = flows.epoch;
      root.dataset.matching = flows.matching;
      end.unixS = flows.epoch_end_unix_s;
      rows.update(flows.flows);
      const free = status.flows ? `; ${status.flows.free_slots} slots free` : "";
      const more = flows.matching > flows.flows.length;
      fill(note,
        !status.flows && !flows.matching ? "this switch tracks no flows (measurement.flows)"
          : more ? `the first ${flows.flows.length} of ${flows.matching} flows ` : `${flows.matching} flows${free} `,
        more && state.limit < 10_000 && h("button", { type: "button", onclick: () => (state.limit = Math.min(10_000, state.limit * 4), context.soon()) }, "more"),
        isName(state.text.trim()) && h("a", { href: linkOf(state.text.trim()) }, " what is known of this flow, also by the sketches"));
    };
  },
  refused: (root, words) => fill(root.querySelector(".note"), mark("warn", words)),
};

export const flowState = () => ({ text: "", order: "packets", down: true, limit: LIMIT });

const METHODS = {
  "lds-joint": "jointly with all flows",
  "lds-joint-sum": "jointly with all flows, from the sum of epochs",
  "lds-paper": "by the LDS paper's estimator",
  "lds-prior": "from the other flows, because it has no usable cell",
  hybrid: "jointly with all flows and references",
  combined: "from references, and jointly with all flows and them",
};

const bound = (ns) => (ns == null ? "of unknown error" : `\u00b1${duration(ns)} (98 %)`);

const truth = (estimate) =>
  estimate.is_within_bound == null ? "" : estimate.is_within_bound ? "; the exact mean is within" : "; the exact mean is OUTSIDE";

/** An estimate in words: mean, bound, method, and what it rests on. */
function estimateWords(one) {
  const method = METHODS[one.method] ?? "from references";
  const epochs = one.epochs === 1 ? `epoch ${one.epoch}` : `${one.epochs} epochs up to ${one.epoch}`;
  return `mean ${duration(one.mean_ns)} ${bound(one.bound_ns)}, ${method} (${one.method}); ${epochs}, ${count(one.packets)} packets${truth(one)}`;
}

function figures(flow) {
  const table = new Table([
    { name: "", left: true, of: (row) => ({ text: row.name }) },
    { name: "packets", of: (row) => cell(row.packets, count) },
    { name: "bytes", of: (row) => cell(row.bytes, bytes) },
    { name: flow.is_on_wire ? "lost at most" : "lost", of: (row) => cell(row.lost_packets, count, row.lost_packets ? "bad" : "") },
    { name: "mean", of: (row) => cell(row.mean_ns, duration) },
    { name: "stddev", of: (row) => cell(row.stddev_ns, duration) },
  ], { key: (row) => row.name });
  table.update([{ name: `epoch ${flow.last_epoch}`, ...flow.last }, { name: `since epoch ${flow.first_epoch}`, ...flow.total }]);
  return table.element;
}

/** All that is said of a flow on one segment. */
function describe(flow) {
  const { quantiles: q, estimate, estimates, references, running } = flow;
  const others = estimates.filter((one) => one.method !== estimate?.method);
  const most = q?.max_ns == null ? "" : `, max ${duration(q.max_ns)}`;
  const reference = (one) => `${duration(one.mean_ns)} ${bound(one.bound_ns)}, stddev ${duration(one.stddev_ns)}, ${count(one.packets)} packets`;
  return [
    h("p.note", null, flow.is_on_wire ? "counted; deviation and percentiles by references" : "exact, by stamps"),
    figures(flow),
    facts([
      ["quantiles", q ? `p50 ${duration(q.p50_ns)}, p90 ${duration(q.p90_ns)}, p99 ${duration(q.p99_ns)}${most}` : "not kept of this flow", q?.p99_ns],
      ["estimated", estimate ? estimateWords(estimate) : "nothing (measurement.lds with its decode, and measurement.rli, estimate flows)",
        estimate?.mean_ns, estimate?.is_within_bound === false ? "estimate" : ""],
      ...others.map((one) => ["also", `mean ${duration(one.mean_ns)} ${bound(one.bound_ns)} (${one.method})${truth(one)}`, one.mean_ns]),
      running && ["since it was first seen", `mean ${duration(running.mean_ns)} ${bound(running.bound_ns)}; ${running.epochs} epochs, ${count(running.packets)} packets`, running.mean_ns],
      references?.last && [`references (${references.method})`, `last epoch: ${reference(references.last)}`, references.last.mean_ns],
      references && [references.last ? "" : `references (${references.method})`, `all: ${reference(references.total)}`, references.total.mean_ns],
    ]),
  ];
}

/** The story of one. */
export const one = {
  asks: ([name]) => [["flow", path("flow", { flow: name }), 2]],
  make(root, [name], context) {
    const story = h("div.stack");
    const charts = new Map();
    root.append(h("p.trail", null, h("a", { href: "#/flows" }, "flows"), " \u203a ", h("b.name", null, name)), story);
    return ({ flow: answer }) => {
      if (root.dataset.answer === JSON.stringify(answer)) return;
      root.dataset.answer = JSON.stringify(answer);
      root.dataset.epoch = answer.epoch;
      const ago = (flow) => uptime(Math.max(0, (answer.epoch_end_unix_s ?? 0) - flow.last_seen_unix_s));
      const parts = [
        ...answer.tracked.map((flow) => panel(`${segmentOf(flow)}: tracked, its last packet ${ago(flow)} ago`, describe(flow), course(flow, charts, context, answer))),
        ...answer.wires.map((flow) => panel(`${segmentOf(flow)}: on the wire, ` +
          (flow.is_counted ? `its last packet ${ago(flow)} ago` : "by the sketch alone: at most so many packets"), describe(flow))),
        ...answer.sketched.map((one) => panel(`${segmentOf(one)}: not tracked; by the sketch`, facts([
          ["packets", `at most ${count(one.packets_max)}`, one.packets_max],
          ["lost", `at most ${count(one.lost_packets_max)}`, one.lost_packets_max],
          ["estimated", one.estimate ? estimateWords(one.estimate) : "not measured: no usable cell holds a packet of it", one.estimate?.mean_ns],
        ]))),
        ...answer.ended.map((flow) => panel(`${segmentOf(flow)}: no longer tracked; it ended ${ago(flow)} ago, with`, describe(flow))),
      ];
      fill(story, parts.length ? parts : panel(name, h("p.empty", null, "no packet of it is known now")));
      for (const [chart, tracked] of charts.values()) chart.update(tracked.courses.find((one) => one.width_s === context.width) ?? tracked.courses[0], answer.epoch_end_unix_s);
    };
  },
};

/** The course of a flow with series of its own. */
function course(flow, charts, context, answer) {
  if (!flow.courses.length) return h("p.note", null, "no history: it has no series of its own (prometheus.pinned gives it one)");
  const key = segmentOf(flow);
  const [chart] = charts.get(key) ?? [new Chart(`${answer.flow} on ${key}`)];
  charts.set(key, [chart, flow]);
  return chart.element;
}
