// Ports, their devices, queues, drops and neighbours.

import { Table, cell, facts, fill, h, mark, panel, to } from "./dom.js";
import { bytes, count, labelled, rate, sum, uptime } from "./units.js";

const nameOf = ({ name, facts: { is_up, is_removed } }) =>
  is_up ? name : is_removed ? `${name} (removed)` : `${name} (down)`;

/** The table of ports, as `vernier top` has it. */
export const table = () => new Table([
  { name: "port", left: true, of: (port) => ({ text: nameOf(port), kind: port.facts.is_up ? "" : "bad" }) },
  { name: "rx/s", sort: true, of: (port) => cell(port.rx_pps, rate) },
  { name: "tx/s", sort: true, of: (port) => cell(port.tx_pps, rate) },
  { name: "received", low: 1, sort: true, of: (port) => cell(port.rx_packets, count) },
  { name: "sent", low: 1, sort: true, of: (port) => cell(port.tx_packets, count) },
  { name: "queued", sort: true, of: (port) => cell(port.queued_packets, count) },
  { name: "dropped", left: true, of: (port) => ({ text: labelled(port.drops), v: sum(port.drops), kind: sum(port.drops) ? "bad" : "" }) },
], { key: (port) => port.name, open: (port) => to("ports", port.name), empty: "no ports" });

const queues = () => new Table([
  { name: "port", left: true, of: ({ port }) => ({ text: port }) },
  { name: "queue", left: true, of: ({ queue }) => ({ text: queue }) },
  { name: "packets now", of: ({ packets }) => cell(packets, count) },
  { name: "bytes now", of: ({ bytes: now }) => cell(now, bytes) },
  { name: "dropped", left: true, of: ({ drops }) => ({ text: labelled(drops), v: sum(drops), kind: sum(drops) ? "bad" : "" }) },
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
    const [ports, waiting, devices] = [table(), queues(), around()];
    const aside = panel("around devices", devices.element);
    root.append(panel("ports", ports.element), panel("egress queues", waiting.element), aside);
    return ({ ports: answer }) => {
      root.dataset.epoch = answer.epoch;
      ports.update(answer.ports);
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
    const [about, kinds, waiting] = [h("div"), classes(), queues()];
    root.append(
      h("p.trail", null, h("a", { href: "#/ports" }, "ports"), " \u203a ", h("b", null, name)),
      panel("port", about), panel("classes that left by it", kinds.element), panel("egress queues", waiting.element),
    );
    return ({ ports: { epoch, ports: [port] }, status }) => {
      root.dataset.epoch = epoch;
      if (!port) return fill(about, mark("warn", "there is no port of this name"));
      fill(about, facts(known(port, status)));
      kinds.update(port.classes);
      waiting.update(port.queues.map((queue) => ({ port: name, ...queue })));
    };
  },
};

function known(port, status) {
  const { facts: device, drops, kinds, neighbours = [] } = port;
  const link = device.is_removed ? "device was removed" : `link ${device.is_up ? "up" : "DOWN"}`;
  const counted = device.missed_packets == null ? "the device belongs to the host program" :
    `${count(device.missed_packets)} missed, ${count(device.no_buffer_packets)} without a buffer, ` +
    `${count(device.rx_error_packets)} receive errors, ${count(device.tx_error_packets)} transmit errors`;
  const heard = ({ heard_unix_s }) => (status.epoch_end_unix_s ? `, heard ${uptime(status.epoch_end_unix_s - heard_unix_s)} ago` : "");
  return [
    ["device", `${device.driver}, ${link}, went down ${count(device.link_flaps)} times`, device.link_flaps, device.is_up ? "" : "bad"],
    ["device counts", counted],
    ["received", `${count(port.rx_packets)} packets, ${bytes(port.rx_bytes)}, ${rate(port.rx_pps)} packets/s`, port.rx_packets],
    ["sent", `${count(port.tx_packets)} packets, ${bytes(port.tx_bytes)}, ${rate(port.tx_pps)} packets/s`, port.tx_packets],
    ["dropped", labelled(drops), sum(drops), sum(drops) ? "bad" : ""],
    ["parsed", labelled(kinds)],
    ...neighbours.map((one) => ["neighbour", `${one.system}, port ${one.port}${heard(one)}`]),
  ];
}
