// @ts-check
/** English: the audit log. */
export default {
  title: "Audit log",
  at: "When",
  who: "Who",
  by: "By",
  /** @type {Record<string, string>} */
  ways: { dashboard: "dashboard", rest_api: "API key", cli: "command" },
  what: "What",
  args: "Arguments",
  show: "show",
  result: "Result",
  /** @type {Record<string, string>} */
  results: { "": "all", success: "done", failure: "refused" },
  request: "Request",
  none: "No change matches.",
};
