// @ts-check
/** Lists that are loaded once, and whose rows the stream tells of from then on. */
import { useEffect, useRef } from "./html.js";

/** The stream tells what has changed between two looks; what was changed and changed back in between, it does not. */
const SURE_MS = 5000;

/**
 * What the stream tells of rows, by their ids. `now` is the newest; `since` is empty until something has changed
 * since the rows were loaded, for what they have themselves. Where other rows are there, or are switched on, the list
 * is loaded again: at once if the stream has told of it since, else when it would have by now.
 * @template Row
 * @template {{ enable: boolean }} Live
 * @param {Record<string, Live> | undefined} event What the stream tells now, by the ids of rows.
 * @param {Row[] | undefined} rows As they were loaded.
 * @param {(row: Row) => { id: string, enable: boolean }} about
 * @param {() => void} reload
 * @returns {{ now: Record<string, Live | undefined>, since: Record<string, Live | undefined> }}
 */
export const useLiveRows = (event, rows, about, reload) => {
  const loaded = useRef({ rows, event });
  if (loaded.current.rows !== rows) loaded.current = { rows, event };
  const now = event ?? {};
  const isNewer = loaded.current.event !== event;
  const streamed = event && signOf(Object.entries(now).map(([id, { enable }]) => ({ id, enable })));
  const had = rows && signOf(rows.map(about));
  const asked = useRef("");
  useEffect(() => {
    if (streamed === undefined || had === undefined) return undefined;
    const difference = streamed === had ? "" : `${streamed} ${had}`;
    if (difference === "" || asked.current === difference) {
      if (difference === "") asked.current = "";
      return undefined;
    }
    const timer = setTimeout(() => {
      asked.current = difference;
      reload();
    }, isNewer ? 0 : SURE_MS);
    return () => clearTimeout(timer);
  }, [streamed, had, isNewer]);
  return { now, since: isNewer ? now : {} };
};

/** @param {{ id: string, enable: boolean }[]} list */
const signOf = (list) => JSON.stringify(list.map(({ id, enable }) => [id, enable]));
