// @ts-check
/** Values over time: a few minutes second by second, longer ones as the history has them. */
import { useEffect, useRef } from "./html.js";
import { api } from "./api.js";
import { joined } from "./joined_series.js";
import { useResource } from "./resource.js";

export const LIVE = "live";
export const RANGES = [LIVE, "3600", "21600", "86400", "604800"];
const LIVE_S = 300;
const AGAIN_MS = 60_000;
const GAP_MS = 5_000;

/**
 * @typedef {{ at: number[], values: Record<string, (number | null)[]> }} Series
 * @typedef {Record<string, number | null | undefined>} Point By the names of the history.
 */

/**
 * What a chart shows of a range that the user chose.
 * @param {string} range Of `RANGES`.
 * @param {string} node Empty for all nodes.
 * @param {string[]} names Of the history.
 * @param {Series} live Of `useRecent`.
 */
export const useSeries = (range, node, names, live) => {
  const newest = live.at.at(-1);
  const seconds = range === LIVE ? LIVE_S : Number(range);
  const history = useResource(`${node} ${range} ${names}`, (signal) =>
    api.get("heliograph/history", { of: names.join(","), seconds, points: 360, ...(node ? { node } : {}) }, signal));
  const loadedAt = useRef(0);
  useEffect(() => { loadedAt.current = Date.now(); }, [history.data]);
  useEffect(() => {
    // Each event of the stream is a chance to look whether the history has more: nothing here has a clock of its own.
    if (range !== LIVE && newest && history.data && !history.isLoading
      && Date.now() - loadedAt.current > AGAIN_MS) history.reload();
  }, [newest]);
  if (!history.data) return { ...history, data: undefined };
  return { ...history, data: range === LIVE ? joined(names, history.data, live, LIVE_S) : history.data };
};

/**
 * The newest values, second by second, of some minutes at the most.
 * @param {string} key @param {string[]} names @param {{ at: number } & Point | undefined} newest
 * @returns {Series}
 */
export const useRecent = (key, names, newest) => {
  const kept = useRef(/** @type {{ key: string, series: Series } | null} */ (null));
  if (kept.current?.key !== key) kept.current = { key, series: emptyOf(names) };
  const { series } = kept.current;
  const last = series.at.at(-1) ?? 0;
  if (newest && newest.at > last) {
    if (last && newest.at - last > GAP_MS) {
      series.at.push(last + 1000); // nothing is known of the time between: the line has a gap there
      for (const name of names) series.values[name].push(null);
    }
    series.at.push(newest.at);
    for (const name of names) series.values[name].push(newest[name] ?? null);
    while (series.at.length > LIVE_S || series.at[0] < newest.at - LIVE_S * 1000) {
      series.at.shift();
      for (const name of names) series.values[name].shift();
    }
  }
  return series;
};

/** @param {string[]} names @returns {Series} */
const emptyOf = (names) => ({ at: [], values: Object.fromEntries(names.map((name) => [name, []])) });
