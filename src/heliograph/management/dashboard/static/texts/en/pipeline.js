// @ts-check
/** English: the pipeline. */
import { counted } from "../../kernel/format.js";

export default {
  title: "Pipeline",
  tabs: { queries: "Queries", dead_letters: "Dead letters", late_rows: "Late rows", plan: "Plan" },
  off:
    "This node runs no pipeline. A pipeline brings stored messages and the rows of rules to databases and tables, " +
    "on Spark: set pipeline.enable, in the section pipeline of the configuration. Actions without Spark need none.",
  toConfiguration: "Configuration",
  driver: "Driver",
  running: "runs",
  stopped: "does not run",
  file: "Pipeline file",
  restarts: "Started again",
  failures: "Ended by itself",
  times: (/** @type {string} */ many) => `${counted(many, "time")} since the node started`,
  /** @type {Record<string, string>} */
  states: { starting: "starting", running: "running", retrying: "retrying", "waiting to restart": "waiting to restart",
    interrupted: "interrupted", finished: "finished", failed: "failed" },
  query: "Query",
  state: "State",
  lag: "Waiting",
  unknown: "unknown",
  batches: "Micro-batches",
  lastBatch: "The last took",
  read: "Read",
  written: "Written",
  refused: "Failed or refused",
  late: "Too late",
  letters: "Dead letters",
  target: "To",
  queryRestarts: "Started again",
  lastError: "Last error",
  sink: "The sink counts",
  none: "The driver has no query yet: its file has no rule with a sink, and no rule of the node names an action.",
  dead: {
    caption: "Dead letters by rule and cause",
    hint:
      "Messages on which a rule failed, and rows that lacked a required column or that the sink refused. They wait " +
      "here until they are replayed or their retention ends.",
    rule: "Rule or action",
    cause: "Cause",
    /** @type {Record<string, string>} */
    causes: { rule: "the rule failed", required: "a required column is missing", sink: "the sink refused it" },
    waiting: "Waiting",
    replayed: "Replayed",
    newest: "Newest",
    reason: "Reason of the newest",
    more: "Actions",
    show: "Show",
    replay: "Replay",
    replayOf: (/** @type {string} */ rule) => `Replay ${rule}`,
    showOf: (/** @type {string} */ rule) => `Show ${rule}`,
    replayTitle: "Replay dead letters",
    replayText: (/** @type {string} */ rule) =>
      `The rows of the waiting dead letters of ${rule} go to its target, as the rule or action is now. Where Spark ` +
      "runs it, this starts Spark and may take a minute.",
    done: (/** @type {Api.ReplayedLetters} */ { letters, rows, kept }) =>
      `${counted(letters, "letter")} replayed, ${counted(rows, "row")} written, `
      + `${counted(kept, "letter stays", "letters stay")}.`,
    none: "There is no dead letter.",
    of: (/** @type {string} */ rule) => `Dead letters of ${rule}`,
    all: "All of them",
    noneOf: "No letter of it waits.",
    withReplayed: "Those that were replayed, too",
    at: "Refused at",
    why: "Why",
    message: "Message",
    payload: "Payload",
    row: "Row",
    wasReplayed: "replayed",
    newestFirst: (/** @type {number} */ limit) => `The newest ${limit}.`,
  },
  lateRows: {
    caption: "Late rows by query and view",
    hint:
      "Rows that came later than the watermark of their query allows, so that Spark left them out. They wait here " +
      "until they are replayed to a table or sink of their own, or their retention ends.",
    view: "View",
    waiting: "Waiting",
    newest: "Newest of them",
    replay: "Replay late rows",
    replayOf: (/** @type {string} */ query, /** @type {string} */ view) => `Replay late rows of ${query} from ${view}`,
    replayTitle: (/** @type {string} */ query) => `Replay late rows of ${query}`,
    replayText:
      "The waiting rows go, as they arrived, to a place of their own, each once. They do not go to the sink of the " +
      "query: what it made of their time is final. This starts Spark and may take a minute.",
    to: "To",
    kinds: { table: "a Parquet table", sink: "a sink of the pipeline file" },
    name: "Name",
    nameHint: "Of the table, below the output directory; or of a sink that the pipeline file has under sinks.",
    viewHint: "The rows of each view have columns of their own.",
    done: (/** @type {Api.ReplayedLateRows} */ { rows, kept, target, reason }) =>
      `${counted(rows, "row")} replayed to ${target}, `
      + `${counted(kept, "row stays", "rows stay")}${reason ? `: ${reason}` : "."}`,
    noneOf: "No late row of this query waits.",
    showOf: (/** @type {string} */ query) => `Show late rows of ${query}`,
    none: "There is no late row.",
    of: (/** @type {string} */ query) => `Late rows of ${query}`,
    all: "All queries",
    at: "Event time",
    watermark: "Watermark",
    row: "Row",
  },
  plan: {
    hint:
      "What each rule makes of the last stored messages. Nothing is written. This starts Spark and may take a minute.",
    rule: "Rule",
    every: "All of them",
    last: "Messages of each view",
    run: "Make the plan",
    running: "Spark is making the plan …",
    engine: "Engine",
    /** @type {Record<string, string>} */
    engines: { native: "Spark SQL, nothing in Python", udf: "the broker's engine, in Python beside Spark",
      "Spark SQL": "Spark SQL" },
    from: "Reads",
    to: "Writes to",
    messages: "Messages",
    counts: (/** @type {Api.QueryPlan} */ one) =>
      `${counted(one.messages, "message")}: ${counted(one.rows_count, "row")}, ${one.failed} failed, ` +
      `${one.refused} without a required ` +
      "column",
    reasons: "Why it failed",
    rows: (/** @type {string} */ name) => `Rows of ${name}`,
    none: "It makes no row of them.",
  },
};
