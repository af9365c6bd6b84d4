// @ts-check
/** English: the editor of SQL. */
export default {
  place: (/** @type {number} */ line, /** @type {number} */ column, /** @type {string} */ message) =>
    `Line ${line}, column ${column}: ${message}`,
  completions: "Words that fit here",
  /** @type {Record<string, string>} */
  kinds: { keyword: "keyword", column: "column", function: "function" },
};
