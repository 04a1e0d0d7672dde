// Questions to the API of the server that this page came from, with its token where it wants one.

const TOKEN = "vernier-token";
const PATIENCE_MS = 10_000;

/** Why there is no answer. `status` is 0 where nobody answered. */
export class Trouble extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  drop: () => sessionStorage.removeItem(TOKEN),
};

/** Answers by what was asked, the last one last: what is shown where the server answers no more. */
const answers = new Map();
const ANSWERS_MAX = 100;

/** Answers that are as good as none. */
const NOTHING = { distributions: { segments: [] }, history: { minutes: [] } };

/** The server's clock when it answered last, in seconds since 1970; within a second. */
export let serverNow = 0;

/** A path of the API with these parameters; those that are empty are left out. */
export function path(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  const query = given.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  return `api/v1/${name}${query ? "?" + query : ""}`;
}

/** The JSON at a path. */
export async function get(where) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  let answer, text;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    answer = await fetch(where, { headers, signal, cache: "no-store" });
    text = await answer.text();
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new Trouble(0, late ? `no answer within ${PATIENCE_MS / 1000} s` : "no connection");
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (date) serverNow = date / 1000;
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Trouble(answer.ok ? 502 : answer.status, text.slice(0, 300).trim());
  }
  if (!answer.ok) throw new Trouble(answer.status, json.error ?? answer.statusText);
  answers.delete(where);
  answers.set(where, json);
  if (answers.size > ANSWERS_MAX) answers.delete(answers.keys().next().value);
  return json;
}

/** What was answered last; of a part what is known of it by the answer of all. Nothing where neither was asked for. */
export function recall(where) {
  if (answers.has(where)) return answers.get(where);
  const { name, asked } = parsed(where);
  const alike = (of) => [...answers].filter(([other]) => parsed(other).name === of).map(([, answer]) => answer);
  const most = (list) => (a, b) => ((b[list]?.length ?? 0) > (a?.[list]?.length ?? -1) ? b : a);
  if (name === "flow") return flowIn(alike("flows").find((answer) => answer.flows.some((one) => one.flow === asked.flow)), asked.flow);
  const list = name === "epochs" || name === "distributions" ? "segments" : name;
  const whole = alike(name).reduce(most(list), undefined);
  if (!whole?.[list]) return NOTHING[name];
  const fields = ["ingress", "egress", "class", "name", "switch", "kind"].filter((field) => asked[field]);
  const found = whole[list].filter((one) => fields.every((field) => one[field] === asked[field]) &&
    (!asked.contains || asked.contains.split(" ").every((word) => one.flow?.includes(word))));
  return { ...whole, [list]: found, matching: found.length };
}

function parsed(where) {
  const [name, query = ""] = where.replace("api/v1/", "").split("?");
  return { name, asked: Object.fromEntries(new URLSearchParams(query)) };
}

/** What a list of flows says of one, as if it had been asked for. */
function flowIn(page, name) {
  if (!page || page.epoch === undefined) return undefined;
  const found = page.flows.filter((one) => one.flow === name);
  const of = (isOnWire) => found.filter((one) => one.is_on_wire === isOnWire).map((one) => ({ ...one, courses: [], is_counted: true }));
  return { flow: name, epoch: page.epoch, epoch_end_unix_s: page.epoch_end_unix_s, tracked: of(false), wires: of(true), sketched: [], ended: [] };
}
