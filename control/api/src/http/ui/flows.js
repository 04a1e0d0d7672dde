// Flows: the list with its search, and the story of one.

import { path } from "./api.js";
import { Chart, SIGNALS, courseFor, pointsOf } from "./charts.js";
import { Table, cell, facts, fill, h, mark, panel, to } from "./dom.js";
import * as groups from "./groups.js";
import { picture, reversed } from "./story.js";
import { bytes, count, counted, duration, percent, rate, title, uptime } from "./units.js";

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
const ORDERS = { "packets/s": "packets", "bit/s": "bytes", "lost/s": "lost", mean: "mean", stddev: "stddev", p99: "p99", "\u00b198%": "bound" };

const lossOf = ({ packets, lost_packets: lost }) => (lost == null ? null : lost / Math.max(1, packets + lost));

/** Rates are those of the flow's last epoch. The mean is exact, and on a wire the estimate's. */
function columns(now) {
  const perS = (n) => (n == null || !now.intervalMs ? null : (n * 1e3) / now.intervalMs);
  const ago = (flow) => (now.unixS == null ? 0 : Math.max(0, now.unixS - flow.last_seen_unix_s));
  const bad = (flow) => (flow.last.lost_packets ? "bad" : "");
  const columns = [
    { name: "flow", left: true, of: (flow) => ({ text: flow.flow, kind: "name" }) },
    { name: "segment", left: true, low: 1, of: (flow) => ({ text: segmentOf(flow) + (flow.is_on_wire ? " (wire)" : "") }) },
    { name: "packets/s", low: 1, of: (flow) => cell(perS(flow.last.packets), rate) },
    { name: "bit/s", of: (flow) => cell(perS(flow.last.bytes * 8), rate) },
    { name: "lost/s", low: 2, of: (flow) => cell(perS(flow.last.lost_packets), rate, bad(flow)) },
    { name: "loss", of: (flow) => cell(lossOf(flow.last), percent, bad(flow)) },
    { name: "mean", of: (flow) => cell(flow.last.mean_ns ?? flow.estimate?.mean_ns, duration) },
    { name: "\u00b198%", low: 2, tip: "half-width of the nominal 98 % interval around the mean; exact: every packet was stamped; -: the error is not known",
      of: (flow) => (flow.last.mean_ns == null ? cell(flow.estimate?.bound_ns, duration) : { text: "exact" }) },
    { name: "stddev", low: 2, of: (flow) => cell(flow.last.stddev_ns, duration) },
    { name: "p99", low: 1, of: (flow) => cell(flow.quantiles?.p99_ns, duration) },
    { name: "ago", low: 1, of: (flow) => cell(ago(flow), uptime) },
  ];
  return columns.map((column) => (ORDERS[column.name] ? { ...column, sort: "server" } : column));
}

/** The list, of flows or joined. */
export const list = {
  asks([found = ""], { flows: state, text }) {
    // The address of a search lists flows, until somebody joins them.
    if (state.found !== found) Object.assign(state, { found, group: found ? "" : state.group });
    const { group, order, down, limit } = state;
    const asked = group ? { scope: "switch", sort: "bytes", limit: groups.JOINED_MAX } : { sort: ORDERS[order], ascending: down ? "" : "true", limit };
    return [["flows", path("flows", { ...asked, ...parse(text) }), group ? 3 : 0]];
  },
  make(root, _, context) {
    const state = context.flows;
    const now = {};
    const rows = new Table(columns(now), {
      empty: "no flow is like this", key: (flow) => [flow.flow, flow.ingress, flow.egress, flow.class].join("\n"),
      open: (flow) => linkOf(flow.flow), order: { column: state.order, down: state.down }, all: true,
    });
    rows.onorder = () => {
      [state.order, state.down] = [rows.order.column, rows.order.down];
      context.soon();
    };
    const tables = new Map([["", rows], ...groups.GROUPS.map((group) => [group, groups.table(group)])]);
    const [choice, note, place] = [h("div.choice", { role: "group", "aria-label": "join flows by" }), h("p.note"), h("div")];
    const choose = () => fill(choice, [...tables.keys()].map((group) => h("button", {
      type: "button", "aria-pressed": String(group === state.group), onclick: () => (state.group = group, choose(), context.soon(0)),
    }, group ? `by ${group}` : "flows")));
    choose();
    root.append(panel("flows", choice, place, note));
    return ({ flows, status }) => {
      const { group } = state;
      root.dataset.epoch = flows.epoch;
      root.dataset.matching = flows.matching;
      Object.assign(now, { unixS: flows.epoch_end_unix_s, intervalMs: status.interval_ms });
      if (place.firstChild !== tables.get(group).element) fill(place, tables.get(group).element);
      tables.get(group).update(group ? groups.joined(group, flows, status.interval_ms) : flows.flows);
      const free = status.flows ? `; ${status.flows.free_slots} slots free` : "";
      const more = flows.matching > flows.flows.length;
      fill(note,
        !status.flows && !flows.matching ? "this switch tracks no flows (measurement.flows)"
          : group ? `of ${more ? `the ${flows.flows.length} largest of ` : ""}${counted(flows.matching, "flow")} inside the switch, those with packets in the last two epochs`
          : more ? `the first ${flows.flows.length} of ${flows.matching} flows ` : `${counted(flows.matching, "flow")}${free} `,
        more && !group && state.limit < 10_000 && h("button", { type: "button", onclick: () => (state.limit = Math.min(10_000, state.limit * 4), context.soon()) }, "more"),
        isName(context.text) && h("a", { href: linkOf(context.text) }, " what is known of this flow, also by the sketches"));
    };
  },
  refused: (root, words) => fill(root.querySelector(".note"), mark("warn", words)),
};

export const flowState = () => ({ group: "", order: "packets/s", down: true, limit: LIMIT });

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
    { name: "bytes", low: 1, of: (row) => cell(row.bytes, bytes) },
    { name: flow.is_on_wire ? "lost at most" : "lost", low: 1, tip: "packets lost in that time", of: (row) => cell(row.lost_packets, count, row.lost_packets ? "bad" : "") },
    { name: "loss", tip: "share of the packets lost in that time", of: (row) => cell(lossOf(row), percent, row.lost_packets ? "bad" : "") },
    { name: "mean", tip: "exact mean of the delays in that time", of: (row) => cell(row.mean_ns, duration) },
    { name: "stddev", tip: "standard deviation of the delays in that time", of: (row) => cell(row.stddev_ns, duration) },
  ], { key: (row) => row.name, all: true });
  table.update([{ name: `epoch ${flow.last_epoch}`, ...flow.last }, { name: `since epoch ${flow.first_epoch}`, ...flow.total }]);
  return table.element;
}

/** All that is said of a flow on one segment. */
function describe(flow) {
  const { quantiles: q, estimate, estimates, references, running } = flow;
  const others = estimates.filter((one) => one.method !== estimate?.method);
  const most = q?.max_ns == null ? "" : `, max ${duration(q.max_ns)}`;
  const reference = (one) => `${duration(one.mean_ns)} ${bound(one.bound_ns)}, stddev ${duration(one.stddev_ns)}, ${count(one.packets)} packets`;
  const by = facts([
    ["estimated", estimate ? estimateWords(estimate) : "nothing (measurement.lds with its decode, and measurement.rli, estimate flows)",
      estimate?.mean_ns, estimate?.is_within_bound === false ? "estimate" : ""],
    ...others.map((one) => ["also", `mean ${duration(one.mean_ns)} ${bound(one.bound_ns)} (${one.method})${truth(one)}`, one.mean_ns]),
    running && ["since it was first seen", `mean ${duration(running.mean_ns)} ${bound(running.bound_ns)}; ${running.epochs} epochs, ${count(running.packets)} packets`, running.mean_ns],
    references?.last && [`references (${references.method})`, `last epoch: ${reference(references.last)}`, references.last.mean_ns],
    references && [references.last ? "" : `references (${references.method})`, `all: ${reference(references.total)}`, references.total.mean_ns],
  ]);
  return [
    h("p.note", null, flow.is_on_wire ? "counted; deviation and percentiles by references" : "exact, by stamps"),
    figures(flow),
    facts([["quantiles", q ? `p50 ${duration(q.p50_ns)}, p90 ${duration(q.p90_ns)}, p99 ${duration(q.p99_ns)}${most}` : "not kept of this flow", q?.p99_ns]]),
    flow.is_on_wire ? by : h("details", null, h("summary", null, "estimates, beside the exact mean"), by),
  ];
}
/** The way of a flow through this switch: in by a wire, from port to port. */
function hopsOf({ tracked, wires }) {
  const hop = (flow, note) => {
    const mean = flow.last?.mean_ns ?? flow.estimate?.mean_ns;
    return { title: segmentOf(flow), note, mean_ns: mean, p99_ns: flow.quantiles?.p99_ns, loss: flow.last ? lossOf(flow.last) : null };
  };
  const arrives = new Set(wires.map((flow) => flow.egress));
  const inside = [...tracked].sort((a, b) => arrives.has(b.ingress) - arrives.has(a.ingress));
  const hops = [...wires.map((flow) => hop(flow, "wire, estimated")), ...inside.map((flow) => hop(flow))];
  const most = Math.max(...hops.map((one) => one.mean_ns ?? 0));
  return hops.map((one) => ({ ...one, isSlowest: hops.length > 1 && one.mean_ns === most }));
}

/** The story of one. */
export const one = {
  asks: ([name]) => [["flow", path("flow", { flow: name }), 2]],
  make(root, [name], { axis }) {
    const [story, way] = [h("div.stack"), h("div")];
    const charts = new Map();
    const other = reversed(name);
    root.append(h("p.trail", null, h("a", { href: "#/flows" }, "flows"), " \u203a ", h("b.name", null, name),
      other && [" \u00b7 ", h("a.other", { href: linkOf(other) }, "the other direction")]), story);
    let drawn = "";
    const chartOf = (flow) => {
      if (!flow.courses.length) return h("p.note", null, "no history: it has no series of its own (prometheus.pinned gives it one)");
      const key = segmentOf(flow);
      const [chart, element] = charts.get(key) ?? (() => {
        const made = new Chart(axis, "delay", { legend: true });
        return [made, h("div", null, !charts.size && axis.bar(), made.element)];
      })();
      charts.set(key, [chart, element, flow]);
      return element;
    };
    return ({ flow: answer }) => {
      if (drawn === JSON.stringify(answer)) return;
      drawn = JSON.stringify(answer);
      root.dataset.epoch = answer.epoch;
      axis.take(answer.epoch_end_unix_s);
      const ago = (flow) => uptime(Math.max(0, (answer.epoch_end_unix_s ?? 0) - flow.last_seen_unix_s));
      const parts = [
        ...answer.tracked.map((flow) => panel(`${segmentOf(flow)}: tracked, its last packet ${ago(flow)} ago`, describe(flow), chartOf(flow))),
        ...answer.wires.map((flow) => panel(`${segmentOf(flow)}: on the wire, ` +
          (flow.is_counted ? `its last packet ${ago(flow)} ago` : "from the sketch: an upper limit of packets"), describe(flow))),
        ...answer.sketched.map((one) => panel(`${segmentOf(one)}: not tracked; by the sketch`, facts([
          ["packets", `at most ${count(one.packets_max)}`, one.packets_max],
          ["lost", `at most ${count(one.lost_packets_max)}`, one.lost_packets_max],
          ["estimated", one.estimate ? estimateWords(one.estimate) : "not measured: no usable cell holds a packet of it", one.estimate?.mean_ns],
        ]))),
        ...answer.ended.map((flow) => panel(`${segmentOf(flow)}: no longer tracked; it ended ${ago(flow)} ago, with`, describe(flow))),
      ];
      const hops = hopsOf(answer);
      const opened = [...story.querySelectorAll("details")].map((one) => one.open);
      fill(story, hops.length > 0 && panel("its path through this switch", way),
        parts.length ? parts : panel(name, h("p.empty", null, "no packet of it is known now")));
      story.querySelectorAll("details").forEach((one, n) => (one.open = opened[n] ?? false));
      if (hops.length) fill(way, picture(hops, Math.max(280, way.clientWidth || 600)));
      for (const [chart, , { courses }] of charts.values()) {
        const course = courseFor(courses, axis);
        const line = (signal, kind) => ({ name: signal.name, kind, points: pointsOf(course, signal, 1), widthS: course?.width_s ?? 1 });
        chart.update([line(SIGNALS.max, "most"), line(SIGNALS.p99, "p99"), line(SIGNALS.mean, "mean"), line(SIGNALS.p50, "median")], SIGNALS.mean);
      }
    };
  },
};
