// @ts-check
/** English: the way of data, from topics to targets. */
import { counted } from "../../kernel/format.js";

export default {
  title: "Data flow",
  hint:
    "From left to right: what rules read, the rules, their actions, and the servers and places that rows go to. " +
    "Each name is a link to its page.",
  search: "Search",
  searchHint: "A part of a name, a topic or a target.",
  failing: "Only what fails",
  columns: ["Topics, events, sources", "Rules", "Actions", "Connectors", "Targets"],
  newAction: "New action",
  picture: "The way of data",
  none:
    "There is no rule, action or connector yet. A rule takes the messages of some topics, and its actions bring the " +
    "rows that it makes of them to a server or a place.",
  noneFound: "Nothing fits the search.",
  fold: "Fold all groups",
  /** Of one thing, beside its sign. @type {Record<string, string>} */
  states: { runs: "runs", failing: "fails now", failed: "has failed", disabled: "disabled", connected: "connected",
    connecting: "connecting", disconnected: "disconnected", inconsistent: "inconsistent", atOnce: "by the broker" },
  kinds: { topic: "Topic", event: "Event", source: "Source", rule: "Rule", action: "Action", connector: "Connector",
    target: "Target" },
  functions: { republish: "Republish", console: "Log of the node", pipeline: "Pipeline" },
  many: {
    inputs: (/** @type {number} */ many) => counted(many, "input"),
    rules: (/** @type {number} */ many) => counted(many, "rule"),
    actions: (/** @type {number} */ many) => counted(many, "action"),
  },
  unfold: "open",
  legend: {
    good: "works",
    warn: "has failed since it counts, or connects",
    bad: "fails now, or is disconnected",
    off: "disabled",
    failed: "failures since it counts",
    waiting: "rows that wait",
    rate: "messages or rows in a second",
  },
  count: (/** @type {number} */ rules, /** @type {number} */ failing) =>
    `${counted(rules, "rule")}; ${failing ? `${counted(failing, "part")} with failures` : "no failures"}.`,
  /** What a screen reader says of one thing: what it is, its state and figures, and what follows it. */
  label: (/** @type {string} */ kind, /** @type {string} */ name, /** @type {string[]} */ facts) =>
    `${kind} ${name}${facts.length ? `: ${facts.join(", ")}` : ""}`,
  inSecond: (/** @type {string} */ rate) => `${rate} in`,
  outSecond: (/** @type {string} */ rate) => `${rate} out`,
  failures: (/** @type {number} */ many) => counted(many, "failure"),
  waits: (/** @type {number} */ many) => `${counted(many, "row")} waiting`,
  leads: (/** @type {string[]} */ names) => `leads to ${names.join(", ")}`,
};
