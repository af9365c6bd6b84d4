// @ts-check
/** English: payloads. */
export default {
  title: "Payload",
  empty: "No payload",
  shownAs: "Show as",
  /** @type {Record<string, string>} */
  views: { text: "Text", json: "JSON", hex: "Hex" },
  beginning: (/** @type {string} */ shown, /** @type {string} */ whole) => `the first ${shown} of ${whole}`,
  all: (/** @type {string} */ whole) => `Show all ${whole}`,
  save: "Save as a file",
};
