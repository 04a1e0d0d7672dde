// Numbers as people read them, digit by digit as `vernier top` writes them (contract::units): three digits and a unit.

/** A number in as many decimals as make three digits. Exact ties go to the even digit, as in Rust. */
function threeDigits(x) {
  const size = Math.abs(x);
  const decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  if (x === 0) return "0";
  // A tie is an odd multiple of 1/2, 1/4 or 1/8: no other binary fraction ends there.
  const eighths = x * 2 ** (decimals + 1);
  if (Number.isInteger(eighths) && eighths % 2 !== 0) {
    const down = Math.floor(x * 10 ** decimals);
    return ((down % 2 === 0 ? down : down + 1) / 10 ** decimals).toFixed(decimals);
  }
  return x.toFixed(decimals);
}

function inUnits(x, units) {
  // What rounds up to a thousand belongs to the next unit.
  const [size, name] = units.find(([size]) => Math.abs(x) >= 0.9995 * size) ?? units.at(-1);
  return threeDigits(x / size) + name;
}

/** `12.3 us`. */
export const duration = (ns) => inUnits(ns, [[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]]);

/** `4.12 M`. */
export const rate = (n) => inUnits(n, [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]]);

/** `4.12 M`; whole numbers under a thousand. */
export const count = (n) => (Math.abs(n) < 1000 ? String(n) : rate(n));

/** `1 flow`, `2 flows`. */
export const counted = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

/** `36.5 KiB`. */
export function bytes(n) {
  const units = [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]];
  const [size, name] = units.find(([size]) => n >= size) ?? units.at(-1);
  return threeDigits(n / size) + name;
}

const two = (n) => String(n).padStart(2, "0");

/** `1h02m03s`, without what is zero in front. */
export function uptime(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (h) return `${h}h${two(m)}m${two(s)}s`;
  return m ? `${m}m${two(s)}s` : `${s}s`;
}

/** `14:03:20`, of seconds since 1970 (UTC). */
export function clock(unixS) {
  const s = ((Math.floor(unixS) % 86400) + 86400) % 86400;
  return [s / 3600, (s / 60) % 60, s % 60].map((part) => two(Math.floor(part))).join(":");
}

/** `42 s ago`, `7 min ago`, `3.2 h ago`. */
export function ago(seconds) {
  const s = Math.max(0, seconds);
  if (s < 120) return `${s.toFixed(0)} s ago`;
  return s < 7200 ? `${(s / 60).toFixed(0)} min ago` : `${(s / 3600).toFixed(1)} h ago`;
}

/** `0.125 %`; `0 %` of nothing at all. */
export const percent = (ratio) => (ratio > 0 ? `${(ratio * 100).toFixed(3)} %` : "0 %");

/** `east>west`, and `east>west gold` for a class of several. */
export const title = (from, to, kind) => (kind === "all" ? `${from}>${to}` : `${from}>${to} ${kind}`);

/** `12 queue_full, 3 runt` of labelled counts; `0` without any. */
export function labelled(list, of = (one) => one.packets) {
  const parts = list.filter((one) => of(one) > 0).map((one) => `${count(of(one))} ${one.label}`);
  return parts.join(", ") || "0";
}

/** All labelled counts. */
export const sum = (list) => list.reduce((all, one) => all + one.packets, 0);
