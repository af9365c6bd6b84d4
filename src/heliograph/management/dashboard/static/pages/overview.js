// @ts-check
/** How the broker is at this moment, and how it was: totals, charts, open alarms, nodes. */
import { html } from "../kernel/html.js";
import { bytes, compact, count, duration, NONE, rate } from "../kernel/format.js";
import { useLive } from "../kernel/live.js";
import { may } from "../kernel/session.js";
import { link } from "../kernel/router.js";
import { BrokerCharts } from "../parts/broker_charts.js";
import { AlarmList } from "../parts/alarm_list.js";
import { Numbers } from "../parts/numbers.js";
import { Loading, PageHead } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import texts from "../texts/en/overview.js";

export default function OverviewPage() {
  const now = useLive("overview");
  const alarms = useLive(may("alarms:read") ? "alarms" : "");
  return html`
    <${PageHead} title=${texts.title} />
    ${now ? html`<${Numbers} of=${numbersOf(now)} />` : html`<${Loading} />`}
    <${BrokerCharts} event=${now} at=${now?.at ?? 0} />
    ${now && html`<section class="card"><h2>${texts.nodes}</h2>
      <${Table} caption=${texts.nodes} columns=${COLUMNS} rows=${now.nodes} rowKey="node" /></section>`}
    ${alarms && html`<section class="card"><h2><a href=${link("alarms")}>${texts.alarms(alarms.count)}</a></h2>
      <${AlarmList} alarms=${alarms.alarms.slice(0, 5)} /></section>`}`;
}

/** @param {Api.OverviewEvent} now @returns {import("../parts/numbers.js").ShownNumber[]} */
const numbersOf = (now) => [
  { name: texts.connections, value: count(now.connections), more: texts.sessions(count(now.sessions)) },
  { name: texts.received, value: rate(now.rates.received), more: byteRate(now.rates.bytes_received) },
  { name: texts.sent, value: rate(now.rates.sent), more: byteRate(now.rates.bytes_sent) },
  { name: texts.dropped, value: rate(now.rates.dropped), sign: now.rates.dropped ? "warn" : "" },
  { name: texts.subscriptions, value: compact(now.subscriptions), more: texts.filters(compact(now.topics)) },
  { name: texts.retained, value: compact(now.retained) },
  { name: texts.turn, value: duration(now.longest_turn_s), sign: now.longest_turn_s > 0.1 ? "warn" : "" },
  { name: texts.memory, value: bytes(now.memory_bytes), more: now.memory_limit_bytes
    ? texts.of(bytes(now.memory_limit_bytes)) : "" },
  { name: texts.openAlarms, value: count(now.alarms), sign: now.alarms ? "bad" : "good", href: link("alarms") },
];

/** @param {number | null} value */
const byteRate = (value) => (value === null ? "" : `${bytes(value)}/s`);

/** @type {import("../parts/table.js").Column<Api.NodeInShort>[]} */
const COLUMNS = [
  { key: "node", title: texts.node, isHead: true, show: (row) =>
    html`<a class="nowrap" href=${link("node", row.node)}>${row.node}</a>` },
  { key: "answers", title: texts.state, show: (row) => html`<span class=${`badge ${row.answers ? "good" : "bad"}`}>
    ${row.answers ? texts.running : texts.silent}</span>` },
  { key: "uptime_s", title: texts.uptime, show: (row) => duration(row.uptime_s) },
  { key: "connections", title: texts.connections, kind: "number", show: (row) => count(row.connections) },
  { key: "received", title: texts.received, kind: "number", show: (row) => rate(row.received) },
  { key: "sent", title: texts.sent, kind: "number", show: (row) => rate(row.sent) },
  { key: "cpu_percent", title: texts.cpu, kind: "number", show: (row) =>
    (row.cpu_percent === null || row.cpu_percent === undefined ? NONE : `${row.cpu_percent} %`) },
  { key: "longest_turn_s", title: texts.turn, kind: "number", show: (row) => duration(row.longest_turn_s) },
  { key: "memory_bytes", title: texts.memory, kind: "number", show: (row) => bytes(row.memory_bytes) },
];

