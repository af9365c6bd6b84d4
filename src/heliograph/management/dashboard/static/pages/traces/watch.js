// @ts-check
/** The records of a live trace as they come, drawn a few times a second however many come. */
import { useEffect, useRef, useState } from "../../kernel/html.js";
import { readEvents } from "../../kernel/events.js";
import { failureOf } from "../../kernel/resource.js";
import texts from "../../texts/en/traces.js";

export const SHOWN_MAX = 300;
const DRAW_MS = 250;
/** @typedef {Api.TraceRecord & { number: number }} Watched */
const NOTHING = {
  records: /** @type {Watched[]} */ ([]), count: 0, lost: 0, why: "",
  error: /** @type {import("../../kernel/resource.js").Failure | null} */ (null), isOn: false,
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
  /** @type {import("../../kernel/events.js").Takers<"heliograph/trace/live">} */
  const take = {
    record: (record) => {
      const { records, count } = now.current;
      change({ records: [{ ...record, number: count }, ...records.slice(0, SHOWN_MAX - 1)], count: count + 1 });
    },
    lost: ({ records }) => change({ lost: now.current.lost + records }),
    end: ({ why }) => change({ why }),
  };
  const begin = (/** @type {import("../../kernel/api.js").Query} */ query) => {
    end();
    const abort = now.current.abort = new AbortController();
    Object.assign(now.current, NOTHING, { isOn: true });
    draw();
    readEvents("heliograph/trace/live", query, take, abort.signal).then(
      () => abort.signal.aborted || change({ isOn: false }),
      (error) => abort.signal.aborted || change({ isOn: false, error: failureOf(error) }),
    );
  };
  const stop = () => {
    end();
    Object.assign(now.current, { isOn: false, why: texts.stoppedByUser });
    draw();
  };
  return { ...shown, begin, stop };
};
