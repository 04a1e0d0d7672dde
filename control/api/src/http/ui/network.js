// The network of a station as a drawing: routers, links, what is slow and who is silent.

import { fill, h, isFound, s, to } from "./dom.js";
import { counted, duration, percent } from "./units.js";

/** Most routers that are drawn. */
const ROUTERS_MAX = 150;

/** Places of routers between 0 and 1: links pull, all push. The same network has the same places every time. */
function places(routers, links) {
  const n = routers.length;
  const at = routers.map((_, k) => [0.5 + 0.4 * Math.cos((2 * Math.PI * k) / n), 0.5 + 0.4 * Math.sin((2 * Math.PI * k) / n)]);
  const best = 0.8 / Math.sqrt(n);
  for (let step = 0; step < 300; step++) {
    const move = at.map(() => [0, 0]);
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < a; b++) push(at, move, a, b, (far) => best ** 2 / far ** 2);
    }
    for (const [a, b] of links) push(at, move, a, b, (far) => -far / best);
    const most = 0.1 * (1 - step / 300) + 0.001;
    at.forEach((place, k) => {
      const length = Math.hypot(...move[k]) || 1;
      for (const axis of [0, 1]) place[axis] += (move[k][axis] / length) * Math.min(length * 0.1, most);
    });
  }
  return spread(at);
}

/** Moves two apart by so much of their distance. */
function push(at, move, a, b, by) {
  const way = [at[a][0] - at[b][0], at[a][1] - at[b][1]];
  const far = Math.max(0.001, Math.hypot(...way));
  const much = by(far);
  for (const axis of [0, 1]) {
    move[a][axis] += way[axis] * much;
    move[b][axis] -= way[axis] * much;
  }
}

/** The places, over the whole area; the longer side lies flat. */
function spread(at) {
  const range = (axis) => [Math.min(...at.map((one) => one[axis])), Math.max(...at.map((one) => one[axis]))];
  const size = (axis) => range(axis)[1] - range(axis)[0];
  const axes = size(0) >= size(1) ? [0, 1] : [1, 0];
  const flat = at.map((one) => axes.map((axis) => (size(axis) < 0.01 ? 0.5 : (one[axis] - range(axis)[0]) / size(axis))));
  // The first name is on the left, above.
  const turn = flat[0]?.map((place) => place > 0.5) ?? [];
  return flat.map((one) => one.map((place, axis) => (turn[axis] ? 1 - place : place)));
}

/** The switches that a title names: `edge-1:trunk > edge-2:trunk`, `a > router > b`. */
const named = (title) => title.split(" > ").map((part) => part.split(":")[0]);

/** Links and routers that are slow. */
function slowOf(risen) {
  const links = new Map(), routers = new Map();
  for (const one of risen) {
    const names = named(one.title);
    if (names.length === 1) routers.set(names[0], one);
    names.slice(1).forEach((name, n) => links.set([names[n], name].sort().join("\n"), one));
  }
  return { links, routers };
}

/** Draws into a place; what is drawn keeps its places while routers and links stay. */
export function map(place) {
  let drawn = null;
  return (topology, blame, missing) => {
    const routers = topology.routers.slice(0, ROUTERS_MAX);
    const index = new Map(routers.map((one, n) => [one.name, n]));
    const links = topology.links.map((one) => [index.get(one.from), index.get(one.to), one]).filter(([a, b]) => a != null && b != null);
    const shape = JSON.stringify([routers.map((one) => one.name), links.map(([a, b]) => [a, b])]);
    if (drawn?.shape !== shape) drawn = { shape, at: places(routers, links) };
    if (!routers.length) return fill(place, h("p.empty", null, "no router is known yet: routers come from the reports of switches or from the topology file"));
    fill(place, draw(drawn.at, routers, links, slowOf(blame.risen), silentOf(missing), place.clientWidth || 600), key(topology));
  };
}

const silentOf = (missing) => new Set(missing.switches.filter((one) => one.silent_since_unix_s != null).map((one) => one.switch));

function draw(at, routers, links, slow, silent, width) {
  const height = Math.max(180, Math.min(520, 110 + 36 * Math.sqrt(routers.length) * 2));
  const flat = routers.length < 3 || at.every((one) => Math.abs(one[1] - 0.5) < 0.01);
  const size = [width, flat ? 140 : height];
  const x = (n) => 60 + at[n][0] * (size[0] - 120);
  const y = (n) => 26 + at[n][1] * (size[1] - 66);
  const lines = links.map(([a, b, measured]) => {
    const names = [routers[a].name, routers[b].name];
    const one = slow.links.get([...names].sort().join("\n"));
    const state = one ? "slow" : names.some((name) => silent.has(name)) ? "silent" : "";
    const latest = [measured.mean_ns == null ? "" : duration(measured.mean_ns), measured.loss_ratio > 0 ? `\u2212${percent(measured.loss_ratio)}` : ""].filter(Boolean).join(" ");
    const figures = latest && state === "silent" ? `${latest} (old)` : latest;
    const words = `${names.join(" \u2013 ")}: ${one ? `${one.signal} has risen` : state || "not risen"}, ${figures || "not measured"}`;
    const line = s("line", { x1: x(a), y1: y(a), x2: x(b), y2: y(b), class: `link ${state}` });
    return s("a", { href: to("paths", ...names), "data-link": names.join(" "), "data-state": state || "well" }, s("title", null, words), line,
      (one || figures) && s("text", { x: (x(a) + x(b)) / 2, y: (y(a) + y(b)) / 2 - 6, class: one ? "middle slow" : "middle figure", "data-key": names.join(" "), "data-f": "delay", "data-v": measured.mean_ns },
        one ? `${figures || "slow"} \u25a0` : figures));
  });
  const nodes = routers.map((one, n) => {
    const isSilent = silent.has(one.name), risen = slow.routers.get(one.name);
    const state = isSilent ? "silent" : risen ? "slow" : one.reports ? "well" : "unreported";
    const mark = { silent: "\u00d7", slow: "\u25a0", well: "\u25cf", unreported: "\u25cb" }[state];
    return s("g", { class: `router ${state}${isFound(one.name) ? "" : " faint"}`, "data-router": one.name, "data-state": state },
      s("title", null, `${one.name}: ${{ silent: "silent", slow: `${risen?.signal} inside has risen`, well: "reports", unreported: "never reported" }[state]}`),
      s("circle", { cx: x(n), cy: y(n), r: 9 }), s("text", { x: x(n), y: y(n) + 4, class: "middle sign" }, mark),
      s("text", { x: x(n), y: y(n) + 24, class: "middle" }, one.name.length > 16 ? one.name.slice(0, 15) + "\u2026" : one.name));
  });
  const [w, tall] = size;
  return s("svg", { width: w, height: tall, viewBox: `0 0 ${w} ${tall}`, role: "img", "aria-label": "network" }, lines, nodes);
}

function key({ routers, links }) {
  const more = routers.length > ROUTERS_MAX ? `; the first ${ROUTERS_MAX} are drawn` : "";
  return h("p.legend", null, `\u25cf reports  \u25a0 slow  \u00d7 silent  \u25cb never reported; ${counted(routers.length, "router")}, ${counted(links.length, "link")}${more}. A link shows the greatest mean delay and loss of its wires, and leads to its path.`);
}
