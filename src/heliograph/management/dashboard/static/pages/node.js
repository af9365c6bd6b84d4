// @ts-check
/** One node: what it does, what holds its memory, its storage and listeners, what is set differently. */
import { html } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { bytes, compact, count, duration, NONE, rate } from "../kernel/format.js";
import { useLive } from "../kernel/live.js";
import { link } from "../kernel/router.js";
import { may, useSession } from "../kernel/session.js";
import { useResource } from "../kernel/resource.js";
import { BrokerCharts } from "../parts/broker_charts.js";
import { MemoryOwners } from "../parts/memory_owners.js";
import { Numbers } from "../parts/numbers.js";
import { Empty, Loaded, Loading, PageHead } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import texts from "../texts/en/node.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function NodePage({ route }) {
  const { user } = useSession();
  const name = route.steps[1] ?? user?.node ?? "";
  const event = useLive("node");
  const now = event?.nodes.find((one) => one.node === name);
  if (event && !now) return html`<${PageHead} title=${name} /><${Empty}>${texts.unknown} <a href=${link("overview")}>
    ${texts.overview}</a><//>`;
  if (now?.answers === false) return html`<${PageHead} title=${name} /><${Empty}>${texts.silent}<//>`;
  return html`
    <${PageHead} title=${name} />
    ${now ? html`<${Numbers} of=${numbersOf(now)} />` : html`<${Loading} />`}
    <${BrokerCharts} event=${now} at=${event?.at ?? 0} node=${name} />
    ${now && html`
      <section class="card"><h2>${texts.storage}</h2>
        <${Table} caption=${texts.storage} columns=${STORAGE} rows=${now.storage}
          rowKey="database" empty=${texts.noStorage} />
        <p class="quiet">${texts.reader(now.reader.is_running, now.reader.restarts,
          now.reader.damaged_places)}</p></section>`}
    <div class="cards">
      <${MemoryOwners} node=${name} />
      ${now && html`<section class="card"><h2>${texts.listeners}</h2>
        <${Table} caption=${texts.listeners} columns=${LISTENERS} rows=${now.listeners}
          rowKey="type name" empty=${texts.noListener} /></section>`}
    </div>
    ${may("config:read") && html`<${Differing} />`}`;
}

/** @param {Api.WholeNode} now @returns {import("../parts/numbers.js").ShownNumber[]} */
const numbersOf = (now) => [
  { name: texts.uptime, value: duration(now.uptime_s) },
  { name: texts.connections, value: count(now.connections), more: texts.sessions(count(now.sessions)) },
  { name: texts.received, value: rate(now.rates.received), more: byteRate(now.rates.bytes_received) },
  { name: texts.sent, value: rate(now.rates.sent), more: byteRate(now.rates.bytes_sent) },
  { name: texts.dropped, value: rate(now.rates.dropped), sign: now.rates.dropped ? "warn" : "" },
  { name: texts.cpu, value: now.cpu_percent === null ? NONE : `${now.cpu_percent} %` },
  { name: texts.turn, value: duration(now.longest_turn_s), sign: now.longest_turn_s > 0.1 ? "warn" : "" },
  { name: texts.memory, value: bytes(now.memory_bytes), sign: now.memory_stage ? "bad" : "" },
  { name: texts.alarms, value: count(now.alarms), sign: now.alarms ? "bad" : "good", href: link("alarms") },
];

/** @param {number | null} value */
const byteRate = (value) => (value === null ? "" : `${bytes(value)}/s`);

/** @type {import("../parts/table.js").Column<Api.LiveDatabase>[]} */
const STORAGE = [
  { key: "database", title: texts.database, isHead: true },
  { key: "is_open", title: texts.state, show: (row) => html`<span class=${`badge ${row.is_open ? "good" : "bad"}`}>
    ${row.is_open ? texts.works : texts.closed}</span>` },
  { key: "messages_rate", title: texts.written, kind: "number", show: (row) => rate(row.messages_rate) },
  { key: "commits_rate", title: texts.commits, kind: "number", show: (row) => rate(row.commits_rate) },
  { key: "last_commit_s", title: texts.lastCommit, kind: "number", show: (row) => duration(row.last_commit_s) },
  { key: "buffered_bytes", title: texts.waiting, kind: "number", show: (row) => bytes(row.buffered_bytes) },
  { key: "bytes", title: texts.size, kind: "number", show: (row) => bytes(row.bytes) },
  { key: "streams", title: texts.streams, kind: "number", show: (row) => compact(row.streams) },
  { key: "refused_messages", title: texts.refused, kind: "number", show: (row) => compact(row.refused_messages) },
];

/** @type {import("../parts/table.js").Column<Api.LiveListener>[]} */
const LISTENERS = [
  { key: "name", title: texts.listener, isHead: true, show: (row) => `${row.type}:${row.name}` },
  { key: "connections", title: texts.connections, kind: "number", show: (row) => count(row.connections) },
];

/** @type {import("../parts/table.js").Column<Api.SettingShown>[]} */
const SETTINGS = [
  { key: "path", title: texts.setting, isHead: true, kind: "code" },
  { key: "value", title: texts.value, kind: "code" },
  { key: "origin", title: texts.origin },
];

const Differing = () => {
  const settings = useResource("configuration", (signal) => api.get("heliograph/configuration", {}, signal));
  return html`<section class="card"><h2>${texts.differing}</h2>
    <${Loaded} of=${settings}>${(/** @type {Api.SettingShown[]} */ rows) => html`
      <${Table} caption=${texts.differing} columns=${SETTINGS}
        rows=${rows.filter(({ origin }) => !origin.startsWith("default"))}
        rowKey="path" empty=${texts.noneDiffers} />`}<//></section>`;
};
