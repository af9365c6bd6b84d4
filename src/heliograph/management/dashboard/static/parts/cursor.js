// @ts-check
/** Where a page is in a list that goes on with cursors; another list begins at its beginning. */
import { useState } from "../kernel/html.js";

/**
 * @template T
 * @param {string} key The list, as one text.
 * @param {T} [first] The cursor of its first page.
 */
export const useCursor = (key, first) => {
  const [held, setHeld] = useState({ key, cursors: /** @type {T[]} */ ([]) });
  const cursors = held.key === key ? held.cursors : [];
  const put = (/** @type {T[]} */ next) => setHeld({ key, cursors: next });
  return {
    cursor: cursors.at(-1) ?? first,
    hasBefore: cursors.length > 0,
    next: (/** @type {T} */ cursor) => put([...cursors, cursor]),
    before: () => put(cursors.slice(0, -1)),
    begin: () => put([]),
  };
};
