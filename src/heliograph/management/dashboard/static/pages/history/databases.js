// @ts-check
/** The databases of the node: what each holds, its generations and streams, and what was found damaged. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { bytes, count, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { link, replaceQuery } from "../../kernel/router.js";
import { Facts } from "../../parts/facts.js";
import { Loaded } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import texts from "../../texts/en/history.js";

const LIMIT = 100;

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export const Databases = ({ route }) => {
  const storage = useResource("storage", (signal) => api.get("heliograph/storage", {}, signal));
  const chosen = route.query.database ?? "messages";
  return html`
    <${Loaded} of=${storage}>${(/** @type {Api.StorageOverview} */ { databases, reader }) => html`
      <${Table} caption=${texts.databases} columns=${COLUMNS} rows=${databases}
        rowKey="name" />
      <${Facts} title=${texts.reader} rows=${[
        [texts.state, reader.is_running ? texts.readerOn(reader.bind) : texts.readerOff],
        [texts.damage, reader.damaged_places ? html`<span class="badge bad">
          ${count(reader.damaged_places)}</span> ${texts.damageHint}` : "0"],
      ]} />
      ${databases.some((one) => one.kind === "messages" && one.name === chosen)
        && html`<${Contents} key=${chosen} name=${chosen} />`}`}<//>`;
};

/** @type {import("../../parts/table.js").Column<Api.DatabaseObject>[]} */
const COLUMNS = [
  { key: "name", title: texts.database, kind: "code", isHead: true },
  { key: "kind", title: texts.kind, show: (row) => texts.kinds[row.kind] },
  { key: "problem", title: texts.state, show: (row) => row.is_open && !row.problem
    ? html`<span class="badge good">${texts.works}</span>` : html`<span class="badge bad">${row.problem}</span>` },
  { key: "disk_bytes", title: texts.disk, kind: "number", show: (row) =>
    (row.disk_bytes < 0 ? "–" : bytes(row.disk_bytes)) },
  { key: "generations", title: texts.generations, kind: "number", show: (row) =>
    (row.kind === "messages" ? count(row.generations) : "–") },
  { key: "streams", title: texts.streams, kind: "number", show: (row) =>
    (row.kind === "messages" ? count(row.streams) : "–") },
  { key: "do", title: texts.actions, kind: "actions", show: (row) => row.kind === "messages" && html`
    <button type="button" aria-label=${texts.lookNamed(row.name)} onClick=${() => replaceQuery({ database: row.name })}>
      ${texts.look}</button>` },
];

/** @param {{ name: string }} props */
const Contents = ({ name }) => {
  const [page, setPage] = useState(1);
  const generations = useResource(`generations ${name}`, (signal) =>
    api.get(path("heliograph/storage/{database}/generations", name), {}, signal));
  const streams = useResource(`streams ${name} ${page}`, (signal) =>
    api.get(path("heliograph/storage/{database}/streams", name), { page, limit: LIMIT }, signal));
  return html`
    <h2>${texts.of(name)}</h2>
    <${Loaded} of=${generations}>${(/** @type {Api.GenerationObject[]} */ rows) => html`
      <${Table} caption=${texts.generations} columns=${GENERATIONS} rows=${rows}
        rowKey="shard generation" />`}<//>
    <${Loaded} of=${streams}>${(/** @type {Api.PageOfStreamObject} */ { data, meta }) => html`
      <${Table} caption=${texts.streams} columns=${streamColumns(name)} rows=${data}
        rowKey="stream" empty=${texts.noStreams} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${page > 1} onMore=${() => setPage(page + 1)}
        onBefore=${() => setPage(page - 1)} />`}<//>`;
};

/** @type {import("../../parts/table.js").Column<Api.GenerationObject>[]} */
const GENERATIONS = [
  { key: "generation", title: texts.generation, kind: "number", isHead: true },
  { key: "shard", title: texts.shard, kind: "number" },
  { key: "since", title: texts.since, kind: "time", show: (row) => time(row.since) },
  { key: "until", title: texts.until, kind: "time", show: (row) =>
    (row.until ? time(row.until) : html`<span class="badge">${texts.open}</span>`) },
  { key: "streams", title: texts.streams, kind: "number", show: (row) => count(row.streams) },
  { key: "messages", title: texts.messages, kind: "number", show: (row) => count(row.messages) },
  { key: "bytes", title: texts.size, kind: "number", show: (row) => bytes(row.bytes) },
];

/** @param {string} database @returns {import("../../parts/table.js").Column<Api.StreamObject>[]} */
const streamColumns = (database) => [
  { key: "topics", title: texts.learned, kind: "code", isHead: true, show: (row) =>
    html`<a href=${link("history", "messages", { topic: row.topics, span: "all", database })}>${row.topics}</a>` },
  { key: "generation", title: texts.generation, kind: "number" },
  { key: "shard", title: texts.shard, kind: "number" },
  { key: "messages", title: texts.messages, kind: "number", show: (row) => count(row.messages) },
  { key: "bytes", title: texts.size, kind: "number", show: (row) => bytes(row.bytes) },
  { key: "last_stored_at", title: texts.lastStored, kind: "time", show: (row) => time(row.last_stored_at) },
];
