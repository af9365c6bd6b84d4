// @ts-check
/** What a tab shows is loaded again with what its page shows. */
import { useEffect, useRef } from "../../kernel/html.js";

/** @param {number} turn Counted up by the page. @param {() => void} reload */
export const useTurn = (turn, reload) => {
  const seen = useRef(turn);
  useEffect(() => {
    if (seen.current !== turn) reload();
    seen.current = turn;
  }, [turn]);
};
