// @ts-check
/** The stream of a live tail: its newest messages, and how many were left out. */
import { useEffect, useRef, useState } from "../../kernel/html.js";
import { ApiError } from "../../kernel/api.js";
import { readEvents } from "../../kernel/events.js";

const KEPT = 200;
const SHOWN_EVERY_MS = 250;
const DAY_S = 86400;

/**
 * @typedef {{ filter: string, rate: string }} Watched
 * @typedef {Api.TailedMessageObject & { place: number }} Tailed
 */

const NOTHING = { messages: /** @type {Tailed[]} */ ([]), leftOut: 0, state: "off",
  error: /** @type {ApiError | null} */ (null) };

/**
 * Follows a filter while it is set; a paused one gets on, and is shown again where it is then.
 * @param {Watched | null} watched
 * @param {boolean} isPaused
 */
export const useTail = (watched, isPaused) => {
  const [shown, setShown] = useState(NOTHING);
  const kept = useRef({ ...NOTHING });
  const paused = useRef(isPaused);
  paused.current = isPaused;
  const isPlanned = useRef(0);
  const show = () => {
    isPlanned.current = 0;
    if (!paused.current) setShown({ ...kept.current });
  };
  const plan = () => { isPlanned.current ||= window.setTimeout(show, SHOWN_EVERY_MS); };
  useEffect(() => { if (!isPaused) show(); }, [isPaused]);
  useEffect(() => {
    if (!watched) return undefined;
    kept.current = { ...NOTHING, state: "begins" };
    show();
    const abort = new AbortController();
    const set = (/** @type {Partial<typeof NOTHING>} */ changes) => {
      kept.current = { ...kept.current, ...changes };
      plan();
    };
    /** @type {import("../../kernel/events.js").Takers<"heliograph/tail">} */
    const take = {
      begin: () => set({ state: "on" }),
      message: (data) => {
        const { messages, leftOut } = kept.current;
        const message = { ...data, place: (messages[0]?.place ?? 0) + 1 };
        set({ messages: [message, ...messages.slice(0, KEPT - 1)], leftOut: leftOut + message.left_out });
      },
      left_out: (data) => set({ leftOut: kept.current.leftOut + data.left_out }),
      end: () => set({ state: "off" }),
    };
    const asked = { topic: watched.filter, rate: watched.rate, max_payload_bytes: 16384, seconds: DAY_S };
    readEvents("heliograph/tail", asked, take, abort.signal).then(
      () => kept.current.state !== "off" && set({ state: "broken" }),
      (error) => abort.signal.aborted || set(error instanceof ApiError && error.status ? { state: "off", error }
        : { state: "broken" }),
    );
    return () => {
      abort.abort();
      clearTimeout(isPlanned.current);
      isPlanned.current = 0;
    };
  }, [watched]);
  const empty = () => {
    kept.current = { ...kept.current, messages: [], leftOut: 0 };
    show();
  };
  return { ...shown, empty };
};
