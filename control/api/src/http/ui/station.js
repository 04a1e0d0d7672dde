// The views of a station: the fleet, its network, paths, segments, switches, flows.

import { serverNow } from "./api.js";
import { fill, h, mark, panel } from "./dom.js";
import { map } from "./network.js";
import * as paths from "./paths.js";
import * as fleet from "./fleet.js";
import { ago, count } from "./units.js";

export const WHAT = "station";
export const EPOCHS = false;

/** What every view needs. */
export const ALWAYS = [["blame", "api/v1/blame?limit=100", 2], ["missing", "api/v1/missing", 2]];

const overview = {
  asks: () => [["topology", "api/v1/topology", 5]],
  make(root) {
    const [verdict, words, place, risen] = [h("p.verdict"), h("div.words"), h("div.network"), paths.risen()];
    root.append(panel("slow now", verdict, risen.element), panel("health", words), h("section.panel.wide", null, h("h2", null, "network"), place));
    const network = map(place);
    return ({ blame, missing, topology }) => {
      fill(verdict, verdictOf(blame));
      risen.element.hidden = !blame.risen.length;
      risen.update(blame.risen);
      fill(words, health(blame, missing).map((one) => h("p", null, one)));
      network(topology, blame, missing);
    };
  },
};

function verdictOf({ segments, learning, matching, risen }) {
  const short = learning ? `; the history of ${count(learning)} is too short to tell` : "";
  const more = matching > risen.length ? `, the worst ${risen.length} are listed` : "";
  const what = matching === 0 ? "nothing is above the usual level" : matching === 1 ? "1 rise" : `${count(matching)} rises`;
  const level = matching ? "bad" : !segments || learning === segments ? "info" : "good";
  return mark(level, h("b", null, what), ` in ${count(segments)} segments that are watched${more}${short}`);
}

/** What is wrong with measuring. */
function health(blame, missing) {
  const since = (at) => (at == null ? "" : `, since ${ago(serverNow - at)}`);
  const faults = blame.faults.map((one) => mark(one.what === "silent" ? "bad" : "warn", `${one.place}: ${one.words}${since(one.since_unix_s)}`));
  const failed = blame.failed.map((one) => mark("bad", h("b", null, `${one.place} ${one.kind === "wire" ? "failed" : "died"}`), ` ${ago(serverNow - one.since_unix_s)}: ${one.words}`));
  const known = new Set([...blame.failed, ...blame.faults.filter((one) => one.what === "silent")].map((one) => one.place));
  const silent = missing.switches.filter((one) => one.silent_since_unix_s != null && !known.has(one.switch));
  const problems = missing.switches.filter((one) => one.problems.length);
  const gaps = missing.switches.filter((one) => one.missed_epochs > 0);
  const { unreported } = missing;
  const words = [
    ...failed,
    ...silent.map((one) => mark("bad", `${one.switch} is silent${since(one.silent_since_unix_s)}`)),
    ...faults,
    ...problems.map((one) => mark("warn", `${one.switch}: ${one.problems.join(", ")}`)),
    ...gaps.map((one) => mark("info", `${one.switch}: no report of ${count(one.missed_epochs)} epochs`)),
    unreported.length && mark("info", `${count(unreported.length)} routers of the topology have never reported: ${unreported.slice(0, 8).join(", ")}${unreported.length > 8 ? ", ..." : ""}`),
  ].filter(Boolean);
  if (words.length) return words;
  return [missing.known ? mark("good", `all ${count(missing.known)} switches report`) : mark("info", "no switch has reported yet")];
}

export const VIEWS = [
  { id: "overview", label: "overview", view: overview },
  { id: "paths", label: "paths", view: paths.view },
  { id: "segments", label: "segments", view: fleet.segments },
  { id: "switches", label: "switches", view: fleet.switches },
  { id: "flows", label: "flows", view: paths.flows, search: "10.1.0.7  :443" },
];

/** The view of an address. */
export function find(name, rest) {
  if (name === "segments" && rest.length === 5) return fleet.segment;
  if (name === "flow" && rest.length === 1) return paths.flow;
  return VIEWS.find((view) => view.id === name)?.view;
}

/** The view that one belongs to. */
export const parentOf = (name) => (name === "flow" ? "flows" : name);

/** The line at the top. */
export function summary({ blame, missing }) {
  const silent = missing.switches.filter((one) => one.silent_since_unix_s != null).length;
  const parts = [
    h("b", null, "station"),
    mark(silent ? "bad" : "good", silent ? `${silent} of ${missing.known} switches silent` : `${missing.known} switches report`),
    blame.matching ? mark("bad", blame.matching === 1 ? "1 rise" : `${count(blame.matching)} rises`) : h("span", null, "no rise"),
    h("span.low1", null, `${count(blame.segments)} segments watched`),
  ];
  return { name: "station", epoch: null, intervalS: 1, parts };
}
