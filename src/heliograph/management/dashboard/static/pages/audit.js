// @ts-check
/** The audit log: who changed what, from where, and how it ended. */
import { html, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { time } from "../kernel/format.js";
import { useResource } from "../kernel/resource.js";
import { replaceQuery } from "../kernel/router.js";
import { Field, SearchField } from "../parts/field.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Pager, Table } from "../parts/table.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/audit.js";

const LIMIT = 50;
const RESULTS = ["", "success", "failure"].map((value) => ({ value, label: texts.results[value] }));

/** @type {import("../parts/table.js").Column<Api.AuditAnswer>[]} */
const COLUMNS = [
  { key: "created_at", title: texts.at, show: (row) => time(row.created_at) },
  { key: "source", title: texts.who, isHead: true, show: (row) => html`${row.source} <small>${row.source_ip}</small>` },
  { key: "from", title: texts.by, show: (row) => texts.ways[row.from] ?? row.from },
  { key: "operation_id", title: texts.what, kind: "code" },
  { key: "args", title: texts.args, show: (row) => html`<details><summary>${texts.show}</summary><pre>
    ${JSON.stringify(row.args, null, 2)}</pre></details>` },
  { key: "operation_result", title: texts.result, show: (row) => row.operation_result === "success"
    ? html`<span class="badge good">${texts.results.success}</span>`
    : html`<span class="badge bad">${texts.results.failure}</span> ${row.failure}` },
  { key: "request_id", title: texts.request, kind: "code", show: (row) => row.request_id.slice(0, 8) },
];

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function AuditPage({ route }) {
  const { source = "", operation_id = "", operation_result = "" } = route.query;
  const [page, setPage] = useState(1);
  const query = { source, operation_id, operation_result, page, limit: LIMIT };
  const rows = useResource(JSON.stringify(query), (signal) => api.get("audit", query, signal));
  const choose = (/** @type {Record<string, string>} */ more) => {
    setPage(1);
    replaceQuery({ source, operation_id, operation_result, ...more });
  };
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${rows.reload}>${everywhere.refresh}</button><//>
    <div class="filters" role="search">
      <${SearchField} label=${texts.who} value=${source} onSearch=${(/** @type {string} */ value) =>
        choose({ source: value })} />
      <${SearchField} label=${texts.what} value=${operation_id}
        onSearch=${(/** @type {string} */ value) => choose({ operation_id: value })} />
      <${Field} label=${texts.result} value=${operation_result}
        onInput=${(/** @type {string} */ value) => choose({ operation_result: value })} options=${RESULTS} />
    </div>
    <${Loaded} of=${rows}>${(/** @type {Api.PageOfAuditAnswer} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${COLUMNS} rows=${data}
        rowKey="created_at request_id operation_id"
        empty=${texts.none} isBusy=${rows.isLoading} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${page > 1} onMore=${() => setPage(page + 1)}
        onBefore=${() => setPage(page - 1)} />`}<//>`;
}
