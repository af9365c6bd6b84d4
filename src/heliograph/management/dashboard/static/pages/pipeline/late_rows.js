// @ts-check
/** Late rows: counted by query and view, shown, replayed to a place of their own. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { count, cut, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { CheckField } from "../../parts/field.js";
import { Loaded } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import pipeline from "../../texts/en/pipeline.js";
import { LateReplay } from "./late_replay.js";

const texts = pipeline.lateRows;
const LIMIT = 100;
const TAB = "late_rows";

/** @param {{ name: string }} props */
export const LateRows = ({ name }) => (name ? html`<${OfQuery} key=${name} name=${name} />` : html`<${Counts} />`);

/**
 * @param {((row: Api.LateCountObject) => void) | null} replay
 * @returns {import("../../parts/table.js").Column<Api.LateCountObject>[]}
 */
const columnsOf = (replay) => [
  { key: "query", title: pipeline.query, kind: "code", isHead: true },
  { key: "view", title: texts.view, kind: "code" },
  { key: "waiting", title: texts.waiting, kind: "number", show: ({ waiting }) => count(waiting) },
  { key: "replayed", title: pipeline.dead.replayed, kind: "number", show: ({ replayed }) => count(replayed) },
  { key: "newest", title: texts.newest, show: ({ newest }) => time(newest) },
  { key: "more", title: pipeline.dead.more, kind: "actions", show: (row) => html`
    <a class="button" aria-label=${texts.showOf(row.query)} href=${link("pipeline", { tab: TAB, rule: row.query })}>
      ${pipeline.dead.show}</a>
    ${replay && row.waiting > 0 && html`<button type="button" aria-label=${texts.replayOf(row.query, row.view)}
      onClick=${() => replay(row)}>${pipeline.dead.replay}</button>`}` },
];

const Counts = () => {
  const counts = useResource("late", (signal) => api.get("heliograph/pipeline/late_rows", {}, signal));
  const [asked, setAsked] = useState(/** @type {Api.LateCountObject | null} */ (null));
  const columns = columnsOf(may("pipeline:write") ? setAsked : null);
  return html`
    <p>${texts.hint}</p>
    <${Loaded} of=${counts}>${(/** @type {Api.LateCountObject[]} */ rows) => html`
      <${Table} caption=${texts.caption} columns=${columns} rows=${rows}
        rowKey="query view"
        empty=${texts.none} isBusy=${counts.isLoading} />`}<//>
    <button type="button" disabled=${counts.isLoading} onClick=${counts.reload}>${everywhere.refresh}</button>
    ${asked && html`<${LateReplay} query=${asked.query} views=${[asked.view]}
      onClose=${(/** @type {boolean} */ isDone) => {
        setAsked(null);
        if (isDone) counts.reload();
      }} />`}`;
};

/** @type {import("../../parts/table.js").Column<Api.LateRow>[]} */
const ROWS = [
  { key: "event_time", title: texts.at, isHead: true, show: (row) =>
    html`${time(row.event_time)}${row.replayed_at
      && html` <span class="badge good">${pipeline.dead.wasReplayed}</span>`}` },
  { key: "watermark", title: texts.watermark, show: ({ watermark }) => time(watermark) },
  { key: "view", title: texts.view, kind: "code" },
  { key: "row", title: texts.row, kind: "code", show: ({ row }) => html`<span title=${row}>${cut(row, 240)}</span>` },
];

/** @param {{ name: string }} props */
const OfQuery = ({ name }) => {
  const [replayed, setAll] = useState(false);
  const [isAsked, setAsked] = useState(false);
  const found = useResource(`${name} ${replayed}`, (signal) =>
    api.get(path("heliograph/pipeline/late_rows/{query}", name), { limit: LIMIT, replayed }, signal));
  const views = viewsWaiting(found.data ?? []);
  return html`
    <header class="page-head"><h2>${texts.of(name)}</h2><div class="actions">
      ${may("pipeline:write") && views.length > 0 && html`<button type="button" onClick=${() => setAsked(true)}>
        ${texts.replay}</button>`}
      <a class="button" href=${link("pipeline", { tab: TAB })}>${texts.all}</a></div></header>
    <${CheckField} label=${pipeline.dead.withReplayed} value=${replayed} onInput=${setAll} />
    <${Loaded} of=${found}>${(/** @type {Api.LateRow[]} */ rows) => html`
      <${Table} caption=${texts.of(name)} columns=${ROWS} rows=${rows.map((row, at) => ({ ...row, at }))}
        rowKey="at"
        empty=${texts.noneOf} isBusy=${found.isLoading} />
      ${rows.length >= LIMIT && html`<p class="quiet">${pipeline.dead.newestFirst(LIMIT)}</p>`}`}<//>
    ${isAsked && html`<${LateReplay} query=${name} views=${views} onClose=${(/** @type {boolean} */ isDone) => {
      setAsked(false);
      if (isDone) found.reload();
    }} />`}`;
};

/** @param {Api.LateRow[]} rows */
const viewsWaiting = (rows) => [...new Set(rows.filter((row) => !row.replayed_at).map((row) => row.view))].sort();
