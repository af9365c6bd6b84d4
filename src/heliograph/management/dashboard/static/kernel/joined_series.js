// @ts-check
/** The history of values, and behind it those that came since, second by second. */

/** @typedef {import("./series.js").Series} Series */

const NO_RATES = new Set(["live_connections", "connections", "longest_turn_us", "memory_bytes"]);

/**
 * Rates second by second as means over the time that one of the history is of, which they would jump beside else: at
 * the begin of the live values the rest of that time counts as the history has it.
 * @param {Series} live
 * @param {string} name
 * @param {number} step Milliseconds.
 * @param {number | null} last The newest of the history.
 */
const evened = (live, name, step, last) => live.values[name].map((value, index) => {
  if (value === null || NO_RATES.has(name)) return value;
  const since = live.at[index] - step;
  const some = live.values[name].filter((one, at) => one !== null && at <= index && live.at[at] > since);
  const sum = some.reduce((all, one) => (all ?? 0) + (one ?? 0), 0) ?? 0;
  const missing = live.at[0] > since && last !== null ? Math.max(0, Math.round(step / 1000) - some.length) : 0;
  return (sum + missing * (last ?? 0)) / (some.length + missing);
});

/**
 * The history up to where the live values begin, then these.
 * @param {string[]} names
 * @param {Series} before
 * @param {Series} live
 * @param {number} seconds So many, to the newest.
 */
export const joined = (names, before, live, seconds) => {
  const end = live.at[0] ?? Infinity;
  const begin = (live.at.at(-1) ?? before.at.at(-1) ?? 0) - seconds * 1000;
  const known = before.at.findLastIndex((_, index) => names.some((name) => before.values[name][index] !== null));
  const kept = before.at.map((_, index) => index).filter((index) => index <= known && before.at[index] < end
    && before.at[index] >= begin);
  const step = before.at.length > 1 ? before.at[1] - before.at[0] : 0;
  const ofHistory = (/** @type {string} */ name) => kept.map((index) => before.values[name][index]);
  return {
    at: [...kept.map((index) => before.at[index]), ...live.at],
    values: Object.fromEntries(names.map((name) => [name,
      [...ofHistory(name), ...evened(live, name, step, ofHistory(name).at(-1) ?? null)]])),
  };
};
