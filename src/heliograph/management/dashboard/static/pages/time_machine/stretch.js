// @ts-check
/** Stretches of the past, as the API takes them. */

const HOUR_MS = 3_600_000;

/**
 * @param {string} name
 * @param {string} from In the browser's zone; what the user gave.
 * @param {string} to The same; empty for now.
 */
export const stretchOf = (name, from, to) => {
  const now = Date.now();
  const midnight = new Date(now);
  midnight.setHours(0, 0, 0, 0);
  const before = new Date(midnight);
  before.setDate(before.getDate() - 1);
  const iso = (/** @type {Date | number | string} */ moment) => new Date(moment).toISOString();
  switch (name) {
    case "hour": return { from: iso(now - HOUR_MS), to: "now" };
    case "day": return { from: iso(now - 24 * HOUR_MS), to: "now" };
    case "yesterday": return { from: iso(before), to: iso(midnight) };
    case "own": return { from: iso(from), to: to ? iso(to) : "now" };
    default: return { from: "earliest", to: "now" };
  }
};
