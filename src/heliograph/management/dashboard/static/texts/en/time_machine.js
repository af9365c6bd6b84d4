// @ts-check
/** English: the rule time machine. */
import { counted } from "../../kernel/format.js";

export default {
  title: "Time machine",
  about: "Run a rule over stored messages to see what it would have made of them. "
    + "Nothing is published, and no action or sink gets a row.",
  rule: "Rule",
  ruleHint: "A rule of the broker, or pipeline:NAME. Empty: the SQL below alone.",
  sql: "SQL",
  sqlHint: "Change the text to see what it would have made. Empty: the rule's own text.",
  compare: "Compare with",
  compares: { none: "Nothing", now: "The rule as it runs now", other: "Another rule, or SQL" },
  other: "The other rule, or SQL",
  stretch: "Stored",
  stretches: {
    hour: "Last hour", day: "Last 24 hours", yesterday: "Yesterday", all: "At any time",
    own: "From … to …",
  },
  from: "From",
  to: "To",
  toHint: "Empty: until now.",
  engine: "Engine",
  engines: { broker: "Broker", spark: "Spark" },
  engineHint: { broker: "", spark: "Spark takes some seconds to start." },
  run: "Run it",
  cancel: "Cancel",
  cancelled: "The replay is cancelled.",
  running: "Running",
  reading: (/** @type {string} */ share, /** @type {string} */ counts) => `${share} of the stretch${counts}`,
  soFar: (/** @type {string} */ messages, /** @type {string} */ rows, /** @type {string} */ failures) =>
    `: ${counted(messages, "message")}, ${counted(rows, "row")}, ${failures} failed`,
  result: "What it made of the past",
  partial: "Its time was over before all messages were read: these are the figures of a part.",
  numbers: {
    messages: "Messages", rows: "Rows", failures: "Failed", nothing: "Gave none", seconds: "Took",
    added: "Added", gone: "Gone", changed: "Changed", equal: "Equal",
  },
  tabs: { rows: "Rows", failures: "Failures", added: "Added", gone: "Gone", changed: "Changed" },
  tabsLabel: "Rows and differences",
  shown: (/** @type {string} */ shown, /** @type {string} */ all) => `${shown} of ${all} are shown.`,
  empty: {
    rows: "The rule gave no row for these messages.",
    failures: "The rule failed on no message.",
    added: "There is no row that only this rule gives.",
    gone: "There is no row that only the other rule gives.",
    changed: "No row differs from the other rule's.",
  },
  nothing: "No message of these topics was stored in this stretch of time.",
  at: "Stored",
  topic: "Topic",
  client: "Client",
  storedThen: "What was stored then, in another tab",
  row: "Row",
  before: "The other rule's row",
  after: "This rule's row",
  reason: "Why it failed",
  notDone: "What was not done",
  notes: "Good to know",
  start: "Start it from then on",
  startTitle: "Start a rule from then on",
  startText: (/** @type {string} */ name, /** @type {string} */ since) =>
    `The pipeline runs ${name} over all that was stored since ${since}, up to where its query began, `
    + "and writes the rows to its sink. This starts Spark.",
  startAction: (/** @type {string} */ name) => `Start ${name}`,
  earliest: "the earliest message",
  /** @type {Record<string, (name: string, why: string) => string>} */
  startStates: {
    running: (name) => `${name} is being run over the past, into its sink …`,
    finished: (name) => `${name} has been run over the past, into its sink.`,
    failed: (name, why) => `${name} was not started: ${why}`,
    cancelled: (name) => `${name} was stopped on its way; start it again to go on.`,
  },
  notStarted: {
    broker: "A rule in the broker acts on messages when they are published, so it cannot be started from the past.",
    sql: "SQL alone is no rule of the pipeline, so it cannot be started from the past.",
    edited: "The pipeline runs another text of this rule: change it in its file first, to start it from the past.",
  },
};
