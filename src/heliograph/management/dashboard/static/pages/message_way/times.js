// @ts-check
/** Times of a message's way: from microseconds to days. */
import { duration } from "../../kernel/format.js";

/** 1530 as `1.5 ms`. @param {number} microseconds */
export const after = (microseconds) => {
  if (microseconds < 1000) return `${microseconds} µs`;
  if (microseconds < 1e6) return `${(microseconds / 1000).toFixed(microseconds < 1e4 ? 1 : 0)} ms`;
  return microseconds < 6e7 ? `${(microseconds / 1e6).toFixed(1)} s` : duration(microseconds / 1e6);
};
