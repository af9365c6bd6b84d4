// @ts-check
/** The queries of the pipeline with their figures. */
import { html } from "../../kernel/html.js";
import { count, cut, duration, time } from "../../kernel/format.js";
import { link } from "../../kernel/router.js";
import { Table } from "../../parts/table.js";
import texts from "../../texts/en/pipeline.js";

/** @param {{ state: string }} props */
const StateBadge = ({ state }) => {
  const sign = { running: "good", retrying: "bad", starting: "warn", "waiting to restart": "bad", interrupted: "bad",
    failed: "bad" }[state] ?? "";
  return html`<span class=${`badge ${sign}`}>${texts.states[state] ?? state}</span>`;
};

/** @param {number} many */
const bad = (many) => html`<span class=${many ? "badge bad" : ""}>${count(many)}</span>`;

/** @type {import("../../parts/table.js").Column<Api.LiveQuery>[]} */
const COLUMNS = [
  { key: "name", title: texts.query, kind: "code", isHead: true },
  { key: "state", title: texts.state, show: ({ state }) => html`<${StateBadge} state=${state} />` },
  { key: "lag", title: texts.lag, kind: "number", show: ({ lag }) => (lag === null ? texts.unknown : count(lag)) },
  { key: "batches", title: texts.batches, kind: "number", show: ({ batches }) => count(batches) },
  { key: "batch", title: texts.lastBatch, kind: "number", show: (one) =>
    (one.batches ? html`<span title=${time(one.last_batch_at)}>${duration((one.batch_ms ?? 0) / 1000)}</span>` : "") },
  { key: "read", title: texts.read, kind: "number", show: (one) => count(one.rows_read) },
  { key: "written", title: texts.written, kind: "number", show: (one) => count(one.rows_written) },
  { key: "refused", title: texts.refused, kind: "number", show: (one) =>
    bad((one.rows_failed ?? 0) + (one.rows_refused ?? 0)) },
  { key: "late", title: texts.late, kind: "number", show: (one) => (one.late_kept
    ? html`<a href=${link("pipeline", { tab: "late_rows", rule: one.name })}>${count(one.rows_late)}</a>`
      : count(one.rows_late)) },
  { key: "letters", title: texts.letters, kind: "number", show: (one) => (one.dead_letters
    ? html`<a href=${link("pipeline", { tab: "dead_letters", rule: one.name })}>${count(one.dead_letters)}</a>`
      : count(one.dead_letters)) },
  { key: "target", title: texts.target, kind: "code", show: (one) =>
    html`<span title=${one.guarantee}>${cut(one.target ?? "", 60)}</span>` },
  { key: "restarts", title: texts.queryRestarts, kind: "number", show: (one) => bad(one.restarts ?? 0) },
  { key: "sink", title: texts.sink, kind: "code", show: (one) =>
    Object.entries(one.sink_figures ?? {}).map(([name, many]) =>
    `${name} ${count(many)}`).join(", ") },
  { key: "last_error", title: texts.lastError, show: (one) =>
    html`<span title=${one.last_error}>${cut(one.last_error ?? "", 120)}</span>` },
];

/** @param {{ queries: Api.LiveQuery[] }} props */
export const Queries = ({ queries }) => html`
  <${Table} caption=${texts.tabs.queries} columns=${COLUMNS} rows=${queries}
    rowKey="name" empty=${texts.none} />`;
