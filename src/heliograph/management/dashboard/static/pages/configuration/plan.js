// @ts-check
/** What a change would do: each setting that differs, and what hides it. */
import { html } from "../../kernel/html.js";
import { Table } from "../../parts/table.js";
import texts from "../../texts/en/configuration.js";

/** @type {import("../../parts/table.js").Column<Api.ConfPlanned>[]} */
const COLUMNS = [
  { key: "path", title: texts.columns.path, kind: "code", isHead: true },
  { key: "old", title: texts.columns.old, kind: "code", show: (row) => row.old
    || html`<span class="quiet">${texts.notSet}</span>` },
  { key: "new", title: texts.columns.new, kind: "code", show: (row) => row.new
    || html`<span class="quiet">${texts.notSet}</span>` },
  { key: "how", title: texts.columns.how, show: (row) => (row.shadowed_by
    ? html`<span class="badge bad">${texts.hiddenBy(row.shadowed_by)}</span>`
    : texts.how[/** @type {keyof typeof texts.how} */ (row.how)]) },
];

/** @param {{ settings: Api.ConfPlanned[] }} props */
export const PlanTable = ({ settings }) => html`
  <${Table} caption=${texts.plan} columns=${COLUMNS} rows=${settings} rowKey="path" empty=${texts.nothingDiffers} />`;
