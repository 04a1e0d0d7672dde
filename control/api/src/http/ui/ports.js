// Ports, their devices, queues, drops and neighbours.

import { Table, cell, facts, fill, h, mark, panel, to } from "./dom.js";
import { bytes, count, labelled, percent, rate, sum, uptime } from "./units.js";

const nameOf = ({ name, facts: { is_up, is_removed } }) =>
  is_up ? name : is_removed ? `${name} (removed)` : `${name} (down)`;

/** Rates are over so many seconds, so that a few packets show. */
const RATE_S = 10;

/** The answers of the last seconds: `{ epoch, ports }`, the oldest first. */
let history = [];

/** Takes an answer, and adds to each port its rates: bits, and drops by reason, a second. */
export function withRates({ epoch, ports }, intervalMs) {
  if (epoch != null && history.at(-1)?.epoch !== epoch) {
    if (epoch < history.at(-1)?.epoch) history = [];
    history.push({ epoch, ports: new Map(ports.map((port) => [port.name, port])) });
    while (history.length > 2 && (epoch - history[1].epoch) * intervalMs >= RATE_S * 1e3) history.shift();
  }
  return ports.map((port) => ({ ...port, rates: ratesOf(port, intervalMs) }));
}

function ratesOf(port, intervalMs) {
  const [first, last] = [history[0], history.at(-1)].map((one) => one?.ports.get(port.name));
  const seconds = ((history.at(-1)?.epoch - history[0]?.epoch) * intervalMs) / 1e3;
  if (!first || !(seconds > 0)) return null;
  const before = new Map(first.drops.map((one) => [one.label, one.packets]));
  // Control frames of wires end here: no packet is lost.
  const drops = last.drops.filter((one) => one.label !== "control").map(({ label, packets }) => ({ label, packets: (packets - (before.get(label) ?? 0)) / seconds }));
  if (last.rx_bytes < first.rx_bytes || drops.some((one) => one.packets < 0)) return null;
  const dropped = drops.reduce((all, one) => all + one.packets, 0);
  const sent = (last.tx_packets - first.tx_packets) / seconds;
  const bits = (field) => ((last[field] - first[field]) * 8) / seconds;
  return { drops: drops.filter((one) => one.packets > 0).sort((a, b) => b.packets - a.packets), dropped, share: dropped / Math.max(1e-9, dropped + sent), rx: bits("rx_bytes"), tx: bits("tx_bytes") };
}

/** The table of ports, in rates. */
export const table = (few) => new Table([
  { name: "port", left: true, of: (port) => ({ text: nameOf(port), kind: port.facts.is_up ? "" : "bad" }) },
  { name: "rx/s", sort: true, of: (port) => cell(port.rx_pps, rate) },
  { name: "tx/s", sort: true, of: (port) => cell(port.tx_pps, rate) },
  { name: "rx bit/s", low: few ? 2 : 1, sort: true, of: (port) => cell(port.rates?.rx, rate) },
  { name: "tx bit/s", low: few ? 2 : 1, sort: true, of: (port) => cell(port.rates?.tx, rate) },
  { name: "queued", sort: true, of: (port) => cell(port.queued_packets, count) },
  { name: "dropped/s", sort: true, of: (port) => cell(port.rates?.dropped, rate, port.rates?.dropped ? "bad" : "") },
  { name: "drop", low: 1, sort: true, of: (port) => cell(port.rates?.share, percent, port.rates?.dropped ? "bad" : "") },
  !few && { name: "why", left: true, low: 1, of: (port) => ({ text: port.rates?.drops.map((one) => one.label).join(", ") || "-" }) },
].filter(Boolean), { key: (port) => port.name, open: (port) => to("ports", port.name), empty: "no ports" });

/** What ports have counted since the switch started. */
const totals = () => new Table([
  { name: "port", left: true, of: (port) => ({ text: port.name }) },
  { name: "received", sort: true, of: (port) => cell(port.rx_packets, count) },
  { name: "sent", sort: true, tip: "packets sent since the switch started", of: (port) => cell(port.tx_packets, count) },
  { name: "dropped", left: true, of: (port) => ({ text: labelled(port.drops), v: sum(port.drops), kind: sum(port.drops) ? "bad" : "" }) },
], { key: (port) => `${port.name} totals`, empty: "no ports" });

const queues = () => new Table([
  { name: "port", left: true, of: ({ port }) => ({ text: port }) },
  { name: "queue", left: true, of: ({ queue }) => ({ text: queue }) },
  { name: "packets now", of: ({ packets }) => cell(packets, count) },
  { name: "bytes now", of: ({ bytes: now }) => cell(now, bytes) },
  { name: "dropped", left: true, low: 1, of: ({ drops }) => ({ text: labelled(drops), v: sum(drops), kind: sum(drops) ? "bad" : "" }) },
], { key: ({ port, queue }) => `${port}\n${queue}`, empty: "no egress queue" });

const classes = () => new Table([
  { name: "class", left: true, of: (one) => ({ text: one.class }) },
  { name: "sent", of: (one) => cell(one.tx_packets, count) },
  { name: "bytes", of: (one) => cell(one.tx_bytes, bytes) },
  { name: "dropped", of: (one) => cell(one.dropped_packets, count, one.dropped_packets ? "bad" : "") },
], { key: (one) => one.class, empty: "no class" });

const around = () => new Table([
  { name: "device", left: true, of: (one) => ({ text: one.device }) },
  { name: "port", left: true, of: (one) => ({ text: one.port }) },
  ...["entered", "returned", "lost", "unknown", "reordered", "displaced"].map((name) => ({
    name, low: name.length > 8 ? 1 : undefined, of: (one) => cell(one[`${name}_packets`], count, name === "lost" && one.lost_packets ? "bad" : ""),
  })),
], { key: (one) => one.port });

/** All ports and all queues. */
export const list = {
  asks: () => [["ports", "api/v1/ports", 0]],
  make(root) {
    const [ports, counted, waiting, devices] = [table(), totals(), queues(), around()];
    const aside = panel("around devices", devices.element);
    root.append(panel("ports, now", ports.element), h("div.two", null, panel("since the switch started", counted.element), panel("egress queues", waiting.element)), aside);
    return ({ ports: answer, status }) => {
      root.dataset.epoch = answer.epoch;
      ports.update(withRates(answer, status.interval_ms));
      counted.update(answer.ports);
      waiting.update(answer.ports.flatMap((port) => port.queues.map((queue) => ({ port: port.name, ...queue }))));
      const led = answer.ports.filter((port) => port.around).map((port) => ({ port: port.name, ...port.around }));
      aside.hidden = !led.length;
      devices.update(led);
    };
  },
};

/** One port. */
export const one = {
  asks: ([name]) => [["ports", `api/v1/ports?name=${encodeURIComponent(name)}`, 0]],
  make(root, [name]) {
    const [about, counted, kinds, waiting] = [h("div"), h("div"), classes(), queues()];
    root.append(
      h("p.trail", null, h("a", { href: "#/ports" }, "ports"), " \u203a ", h("b", null, name)),
      h("div.two", null, panel("now", about), panel("since the switch started", counted)),
      h("div.two", null, panel("classes that left by it since the switch started", kinds.element), panel("egress queues", waiting.element)),
    );
    return ({ ports: { epoch, ports: [port] }, status }) => {
      root.dataset.epoch = epoch;
      if (!port) return fill(about, mark("warn", "there is no port of this name"));
      fill(about, facts(known(port, status)));
      fill(counted, facts(countedBy(port)));
      kinds.update(port.classes);
      waiting.update(port.queues.map((queue) => ({ port: name, ...queue })));
    };
  },
};

function known(port, status) {
  const { facts: device, neighbours = [] } = port;
  const link = device.is_removed ? "device was removed" : `link ${device.is_up ? "up" : "DOWN"}`;
  const heard = ({ heard_unix_s }) => (status.epoch_end_unix_s ? `, heard ${uptime(status.epoch_end_unix_s - heard_unix_s)} ago` : "");
  return [
    ["device", `${device.driver}, ${link}, went down ${count(device.link_flaps)} times`, device.link_flaps, device.is_up ? "" : "bad"],
    ["receives", `${rate(port.rx_pps)} packets/s`, port.rx_pps],
    ["sends", `${rate(port.tx_pps)} packets/s`, port.tx_pps],
    ["queued", `${count(port.queued_packets)} packets`, port.queued_packets],
    ...neighbours.map((one) => ["neighbour", `${one.system}, port ${one.port}${heard(one)}`]),
  ];
}

function countedBy({ facts: device, drops, kinds, ...port }) {
  const counted = device.missed_packets == null ? "the device belongs to the host program" :
    `${count(device.missed_packets)} missed, ${count(device.no_buffer_packets)} without a buffer, ` +
    `${count(device.rx_error_packets)} receive errors, ${count(device.tx_error_packets)} transmit errors`;
  return [
    ["received", `${count(port.rx_packets)} packets, ${bytes(port.rx_bytes)}`, port.rx_packets],
    ["sent", `${count(port.tx_packets)} packets, ${bytes(port.tx_bytes)}`, port.tx_packets],
    ["dropped", labelled(drops), sum(drops), sum(drops) ? "bad" : ""],
    ["parsed", labelled(kinds)],
    ["by the device", counted],
  ];
}
