// @ts-check
/** English: charts. */
export default {
  /** @param {string} title @param {string[]} lines */
  summary: (title, lines) => `${title}. ${lines.join(" ")}`,
  /** @param {string} label @param {string} now @param {string} least @param {string} most */
  line: (label, now, least, most) => `${label}: now ${now}, between ${least} and ${most}.`,
  /** @param {string} label */
  nothing: (label) => `${label}: nothing is known yet.`,
  asTable: "As a table",
  time: "Time",
  range: "Time shown",
  /** @type {Record<string, string>} */
  ranges: { live: "5 min", 3600: "1 h", 21600: "6 h", 86400: "24 h", 604800: "7 d" },
  chart: "What the chart shows",
};
