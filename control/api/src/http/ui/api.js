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
  return json;
}
