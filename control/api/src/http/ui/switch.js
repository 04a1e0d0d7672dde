// The views of a switch, which are those of the plugin, too.

import { h, mark } from "./dom.js";
import * as flows from "./flows.js";
import * as overview from "./overview.js";
import * as ports from "./ports.js";
import * as segments from "./segments.js";
import { uptime } from "./units.js";
import * as wires from "./wires.js";

export const WHAT = "switch";

/** Figures are of epochs, which close again and again. */
export const EPOCHS = true;

export const VIEWS = [
  { id: "overview", label: "overview", view: overview.view },
  { id: "segments", label: "segments", view: segments.list },
  { id: "flows", label: "flows", view: flows.list, search: "10.1.0.0/16  :443  tcp  in=east" },
  { id: "wires", label: "wires", view: wires.view },
  { id: "ports", label: "ports", view: ports.list },
];

/** What every view needs. */
export const ALWAYS = [["status", "api/v1/status", 0]];

/** The view of an address. */
export function find(name, rest) {
  if (name === "segments" && rest.length === 3) return segments.one;
  if (name === "flow" && rest.length === 1) return flows.one;
  if (name === "ports" && rest.length === 1) return ports.one;
  return VIEWS.find((view) => view.id === name)?.view;
}

/** The view that one belongs to. */
export const parentOf = (name) => (name === "flow" ? "flows" : name);

/** The line at the top. */
export function summary({ status }) {
  const { switch: name, version, state, unready, measuring, epoch, interval_ms: ms, uptime_s: up, workers } = status;
  const isReady = !unready.length;
  const epochs = !measuring ? "measurement off" : epoch == null ? "first epoch" : `epoch ${epoch} of ${ms} ms`;
  const busy = workers.map((worker, n) => (worker.is_stalled
    ? mark("bad", `worker ${n} STALLED`) : h("span.low1", null, `worker ${n} ${(worker.busy_ratio * 100).toFixed(0)}% busy`)));
  const parts = [
    h("b", null, name),
    mark(isReady ? "good" : "bad", isReady ? state : unready.length === 1 ? unready[0] : `${unready.length} faults: ${unready[0]}, ...`),
    h("span", { "data-f": "epoch", "data-v": epoch }, epochs),
    h("span.low1", null, `up ${uptime(up)}`),
    h("span.low2", null, version),
    ...busy.slice(0, 8),
  ];
  return { name, epoch, intervalS: ms / 1e3, parts };
}
