// @ts-check
/** One replay at a time: begun, followed until it ends, and gone with the page. */
import { useLayoutEffect, useRef, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { readEvents } from "../../kernel/events.js";
import { failureOf } from "../../kernel/resource.js";
import { tell } from "../../parts/notice.js";
import texts from "../../texts/en/time_machine.js";

const WHERE = "heliograph/rule_replays";
const NOTHING = {
  shown: /** @type {Api.RuleReplayShown | null} */ (null),
  error: /** @type {import("../../kernel/resource.js").Failure | null} */ (null), isRunning: false,
};

/** What a replay is followed with; its id comes when it has begun, and is empty while there is none. */
const fresh = () => ({ begun: Promise.resolve(""), abort: new AbortController() });

export const useReplay = () => {
  const [state, setState] = useState(NOTHING);
  const now = useRef(fresh());
  const change = (/** @type {Partial<typeof NOTHING>} */ changed) =>
    setState((old) => ({ ...old, ...changed }));
  const forget = () => {
    const { begun, abort } = now.current;
    abort.abort();
    now.current = fresh();
    const end = begun.then((id) => id && api.del(path("heliograph/rule_replays/{id}", id)));
    return end.catch(() => {}); // it may be gone already
  };
  // With the page itself: an effect ends a frame later, when the answer to what is forgotten may be there.
  useLayoutEffect(() => () => { forget(); }, []);
  const follow = async () => {
    const { begun, abort: { signal } } = now.current;
    try {
      const id = await begun;
      const where = path("heliograph/rule_replays/{id}/events", id);
      const take = (/** @type {Api.RuleReplayShown} */ now) => {
        if (signal.aborted) return;
        setState((old) => ({ ...old, isRunning: now.state === "running", shown: { ...old.shown, ...now } }));
      };
      await readEvents(where, {}, { progress: take, end: take }, signal);
      const shown = await api.get(path("heliograph/rule_replays/{id}", id), {}, signal);
      change({ shown, isRunning: false, error: null });
    } catch (error) {
      if (!signal.aborted) change({ error: failureOf(error), isRunning: false });
    }
  };
  const run = async (/** @type {object} */ body) => {
    setState({ ...NOTHING, isRunning: true });
    const before = forget();
    const mine = now.current;
    const { signal } = mine.abort;
    await before;
    if (signal.aborted) return; // the page is gone, or it was cancelled, while the one before it ended
    mine.begun = api.post(WHERE, body).then((shown) => {
      if (!signal.aborted) change({ shown });
      return shown.id;
    });
    await follow();
  };
  const cancel = async () => {
    await forget();
    setState(NOTHING);
    tell(texts.cancelled);
  };
  return { ...state, run, cancel, follow, again: state.error && state.shown ? follow : undefined };
};
