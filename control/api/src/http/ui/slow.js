// What is slow now, since when and what is known of the cause, from the courses that the API has: of ten minutes by 10 s and of
// an hour by minutes. What rose together is one incident.
// A station finds rises by its own, longer histories; here the page compares, and says with what.

/** Buckets of 10 s that are now: the one that is open, and the one before. */
const NOW_S = 20;

/** Fewest buckets to say what is usual. */
const USUAL_MIN = 3;

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
};

/** What may rise: how it is read from a bucket, and by what factor a rise is one. */
export const SIGNALS = [
  { name: "mean", of: (one) => one.mean_ns, factor: 1.5, least: 100 },
  { name: "p99", of: (one) => one.p99_max_ns, factor: 2, least: 100 },
  { name: "loss", of: (one) => one.lost_packets / (one.packets + one.lost_packets), factor: 2, least: 0.0005 },
];

const filled = (buckets) => buckets.filter((one) => one.packets + one.lost_packets > 0);

/** Buckets joined, by their packets. */
function joined(buckets, signal) {
  const known = buckets.filter((one) => signal.of(one) != null);
  if (signal.name === "p99") return known.length ? Math.max(...known.map(signal.of)) : null;
  const weight = (one) => (signal.name === "loss" ? one.packets + one.lost_packets : one.packets);
  const packets = known.reduce((all, one) => all + weight(one), 0);
  return packets ? known.reduce((all, one) => all + weight(one) * signal.of(one), 0) / packets : null;
}

/** `{ now, usual, from, rise, sinceS }` of a signal; `usual` is null while the history is too short, `rise` where there is none. */
export function judge(signal, tens, minutes, endS) {
  const isNow = (one, widthS) => one.start_unix_s + widthS > endS - NOW_S;
  const present = filled(tens).filter((one) => isNow(one, 10));
  const now = joined(present, signal);
  const before = [
    ...filled(minutes).filter((one) => one.start_unix_s < endS - 600).map((one) => ({ ...one, widthS: 60 })),
    ...filled(tens).filter((one) => !isNow(one, 10)).map((one) => ({ ...one, widthS: 10 })),
  ].filter((one) => signal.of(one) != null);
  // A minute counts as much as six buckets of 10 s.
  const values = before.flatMap((one) => Array(one.widthS / 10).fill(signal.of(one)));
  if (now == null || before.length < USUAL_MIN) return { now, usual: null, rise: null };
  const usual = median(values);
  const spread = 1.4826 * median(values.map((value) => Math.abs(value - usual)));
  const isRisen = now > signal.factor * usual && now - usual > Math.max(signal.least, 3 * spread);
  if (!isRisen) return { now, usual, rise: null };
  const half = (usual + now) / 2;
  let sinceS = present[0].start_unix_s;
  for (const one of before.reverse()) {
    if (signal.of(one) < half) break;
    sinceS = one.start_unix_s;
  }
  return { now, usual, rise: now - usual, sinceS };
}

const courseOf = (one, widthS) => one?.courses.find((course) => course.width_s === widthS)?.buckets ?? [];

/** Packets an epoch: no rise in itself, but the cause of others. */
const LOAD = { name: "load", of: (one) => (one.packets + one.lost_packets) / one.epochs, factor: 1.25, least: 1 };

/** Every segment's signals. `tens` and `hours` are answers of `/api/v1/epochs` by 10 s and by minutes. */
export function judgeAll(tens, hours) {
  const name = (one) => [one.ingress, one.egress, one.class].join("\n");
  const byName = new Map((hours?.segments ?? []).map((one) => [name(one), one]));
  return (tens?.segments ?? []).map((segment) => {
    const minutes = courseOf(byName.get(name(segment)), 60);
    const course = courseOf(segment, 10);
    const signals = [...SIGNALS, LOAD].map((signal) => [signal.name, judge(signal, course, minutes, tens.epoch_end_unix_s)]);
    return { segment, name: name(segment), course, signals: Object.fromEntries(signals) };
  });
}

/** Segments that rose within so many seconds of each other rose together: buckets are 10 s wide, older ones a minute. */
const TOGETHER_S = 30;

/** How much a rise weighs: losses as in a station, a lost packet for a second. */
const weight = (signal) => (signal.rise == null ? 0 : signal.name === "loss" ? signal.rise * 1e9 : signal.rise);

/** What rose together, the latest first: `{ sinceS, segments }` with the worst segment first. */
export function incidents(judged) {
  const risen = judged.map((one) => {
    const signals = SIGNALS.map(({ name }) => ({ name, ...one.signals[name] })).filter((signal) => signal.rise != null);
    return { ...one, weight: Math.max(0, ...signals.map(weight)), sinceS: Math.min(...signals.map((signal) => signal.sinceS)) };
  }).filter((one) => one.weight > 0).sort((a, b) => a.sinceS - b.sinceS);
  const found = [];
  for (const one of risen) {
    const last = found.at(-1);
    if (last && one.sinceS - last.sinceS <= TOGETHER_S) last.segments.push(one);
    else found.push({ sinceS: one.sinceS, segments: [one] });
  }
  for (const one of found) one.segments.sort((a, b) => b.weight - a.weight);
  return found.reverse();
}

/** What all of an incident's segments have in common, `{ egress }` or `{ ingress }`, or nothing. */
export function placeOf({ segments }) {
  const same = (end) => segments.every(({ segment }) => segment[end] === segments[0].segment[end]);
  if (same("egress")) return { egress: segments[0].segment.egress };
  return same("ingress") ? { ingress: segments[0].segment.ingress } : {};
}

/** The load of segments, in packets a second: now, usual, and whether it rose. */
export function loadOf(segments, intervalMs) {
  const loads = segments.map((one) => one.signals.load).filter((load) => load.usual != null);
  const sum = (field) => (loads.reduce((all, load) => all + load[field], 0) * 1e3) / intervalMs;
  const [now, usual] = [sum("now"), sum("usual")];
  return { now, usual, isRisen: now > LOAD.factor * usual };
}
