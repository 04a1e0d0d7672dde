// Flows joined by host, subnet or service.

import { Table, cell, to } from "./dom.js";
import { count, duration, percent, rate } from "./units.js";

/** Flows that are joined: the largest. */
export const JOINED_MAX = 2000;

/** Address and port of an end: `10.0.0.1:80`, `[2001:db8::1]:80`, or an address alone. */
export function end(text) {
  const [, v6, port6] = /^\[(.+)\]:(\d+)$/.exec(text) ?? [];
  const [, v4, port4] = /^([\d.]+):(\d+)$/.exec(text) ?? [];
  return { host: v6 ?? v4 ?? text, port: port6 ?? port4 };
}

/** A network of /24, or of /64; an address of neither kind is its own. */
function subnet(host) {
  if (/^[\d.]+$/.test(host)) return `${host.split(".").slice(0, 3).join(".")}.0/24`;
  if (!host.includes("::") && host.split(":").length < 8) return host;
  const [head, tail = ""] = host.split("::");
  const parts = head.split(":").filter(Boolean);
  const all = host.includes("::") ? [...parts, ...Array(8 - parts.length - tail.split(":").filter(Boolean).length).fill("0"), ...tail.split(":").filter(Boolean)] : parts;
  return `${all.slice(0, 4).join(":").replace(/(:0)+$/, "")}::/64`;
}

const parse = (name) => {
  const [, source, destination, protocol] = /^([^>]+)>([^/]+)\/(.*)$/.exec(name) ?? [];
  return source && { ends: [end(source), end(destination)], protocol };
};

/** The ways to join flows: what a flow counts for, as it leaves and as it arrives. */
const KEYS = {
  host: ({ ends }) => ends.map((one) => one.host),
  subnet: ({ ends }) => ends.map((one) => subnet(one.host)),
  service: ({ ends, protocol }) => {
    const ports = ends.map((one) => one.port).filter(Boolean).map(Number);
    return [ports.length ? `${Math.min(...ports)}/${protocol}` : protocol];
  },
};

export const GROUPS = Object.keys(KEYS);

/** What the search of flows has to say for a group. */
const searchOf = (group, key) => (group === "service" ? (/^\d/.test(key) ? `:${key.replace("/", " /")}` : `/${key}`) : group === "subnet" ? key : key.includes(":") ? `${key}/128` : `${key}/32`);

/** Joins flows that had packets in the last two epochs of this page. */
export function joined(group, { flows, epoch_end_unix_s: endS }, intervalMs) {
  const groups = new Map();
  const perS = (n) => (n * 1e3) / intervalMs;
  for (const flow of flows) {
    const parsed = parse(flow.flow);
    if (!parsed || endS - flow.last_seen_unix_s > (2.5 * intervalMs) / 1e3) continue;
    const { packets, bytes, lost_packets: lost, mean_ns: mean } = flow.last;
    KEYS[group](parsed).forEach((key, isInto) => {
      const sum = groups.get(key) ?? { key, flows: 0, sent: 0, received: 0, packets: 0, lost: 0, delay: 0, stamped: 0, p99: null };
      groups.set(key, sum);
      sum.flows += 1;
      sum[isInto ? "received" : "sent"] += perS(bytes * 8);
      sum.packets += perS(packets);
      sum.lost += perS(lost ?? 0);
      if (mean != null) (sum.delay += mean * packets), (sum.stamped += packets);
      if (flow.quantiles) sum.p99 = Math.max(sum.p99 ?? 0, flow.quantiles.p99_ns);
    });
  }
  return [...groups.values()].sort((a, b) => b.sent + b.received - a.sent - a.received);
}

/** The table of groups. */
export const table = (group) => new Table([
  { name: group, left: true, of: (row) => ({ text: row.key, kind: "name" }) },
  { name: "flows", low: 1, sort: true, of: (row) => cell(row.flows, count) },
  { name: group === "service" ? "bit/s" : "sent bit/s", sort: true, of: (row) => cell(row.sent, rate) },
  group !== "service" && { name: "received bit/s", sort: true, of: (row) => cell(row.received, rate) },
  { name: "packets/s", low: 1, sort: true, of: (row) => cell(row.packets, rate) },
  { name: "loss", sort: true, of: (row) => cell(row.lost / Math.max(1e-9, row.packets + row.lost), percent, row.lost ? "bad" : "") },
  { name: "mean", sort: true, tip: "mean delay of their packets in the last epoch of each flow", of: (row) => cell(row.stamped ? row.delay / row.stamped : null, duration) },
  { name: "p99", low: 1, sort: true, tip: "the greatest of their flows with series of their own", of: (row) => cell(row.p99, duration) },
].filter(Boolean), { key: (row) => row.key, open: (row) => to("flows", searchOf(group, row.key)), empty: "no flow has packets now", all: true });
