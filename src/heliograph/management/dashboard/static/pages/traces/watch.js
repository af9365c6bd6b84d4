// @ts-check
/** The records of a live trace as they come, drawn a few times a second however many come. */
import { useEffect, useRef, useState } from "../../kernel/html.js";
import { readEvents } from "../../kernel/events.js";
import texts from "../../texts/en/traces.js";

export const SHOWN_MAX = 300;
const DRAW_MS = 250;
const NOTHING = {
  records: /** @type {any[]} */ ([]), count: 0, lost: 0, why: "", error: /** @type {any} */ (null), isOn: false,
};

export const useWatch = () => {
  const [shown, setShown] = useState(NOTHING);
  const now = useRef({ ...NOTHING, abort: /** @type {AbortController | null} */ (null), timer: 0 });
  const draw = () => {
    now.current.timer = 0;
    const { records, count, lost, why, error, isOn } = now.current;
    setShown({ records, count, lost, why, error, isOn });
  };
  const change = (/** @type {Partial<typeof NOTHING>} */ changed) => {
    Object.assign(now.current, changed);
    if (!now.current.timer) now.current.timer = setTimeout(draw, DRAW_MS);
  };
  const end = () => {
    now.current.abort?.abort();
    now.current.abort = null;
    clearTimeout(now.current.timer);
    now.current.timer = 0;
  };
  useEffect(() => end, []);
  const take = (/** @type {string} */ name, /** @type {any} */ data) => {
    const { records, count, lost } = now.current;
    if (name === "lost") change({ lost: lost + data.records });
    if (name === "end") change({ why: data.why });
    if (name !== "record") return;
    change({ records: [{ ...data, number: count }, ...records.slice(0, SHOWN_MAX - 1)], count: count + 1 });
  };
  const begin = (/** @type {Record<string, any>} */ query) => {
    end();
    const abort = now.current.abort = new AbortController();
    Object.assign(now.current, NOTHING, { isOn: true });
    draw();
    readEvents("heliograph/trace/live", query, take, abort.signal).then(
      () => abort.signal.aborted || change({ isOn: false }),
      (error) => abort.signal.aborted || change({ isOn: false, error }),
    );
  };
  const stop = () => {
    end();
    Object.assign(now.current, { isOn: false, why: texts.stoppedByUser });
    draw();
  };
  return { ...shown, begin, stop };
};
