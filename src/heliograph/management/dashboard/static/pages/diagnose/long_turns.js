// @ts-check
/** Turns of the event loop that took long, while all clients waited, and what was seen to run in them. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { duration, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { Loaded } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/diagnose.js";

/** @type {import("../../parts/table.js").Column<Api.LongTurnShown>[]} */
const COLUMNS = [
  { key: "ended_at", title: texts.at, isHead: true, show: (row) =>
    html`<span class="nowrap">${time(row.ended_at)}</span>` },
  { key: "seconds", title: texts.took, kind: "number", show: (row) => duration(row.seconds) },
  { key: "ran", title: texts.ran, kind: "code", show: (row) => row.ran
    || html`<span class="quiet">${texts.notSeen}</span>` },
];

/** @param {{ node: string }} props */
export const LongTurns = ({ node }) => {
  const turns = useResource(node, (signal) => api.get(path("heliograph/nodes/{node}/turns", node), {}, signal));
  return html`
    <header class="page-head"><p class="quiet">${texts.turnsHint}</p><button type="button" onClick=${turns.reload}>
      ${everywhere.refresh}</button></header>
    <${Loaded} of=${turns}>${(/** @type {Api.LongTurns} */ data) => html`
      <p>${texts.longest(duration(data.longest_lag_s))}</p>
      <${Table} caption=${texts.tabs.turns} columns=${COLUMNS} rows=${data.turns} isBusy=${turns.isLoading}
        empty=${texts.noTurns}
        rowKey="ended_at seconds" />`}<//>`;
};
