// @ts-check
/** How clients are shown in lists, and what of them stands in a file of values. */
import { html } from "../../kernel/html.js";
import { count, cut, duration, NONE, secondsSince, time } from "../../kernel/format.js";
import { link } from "../../kernel/router.js";
import { factColumn } from "./facts.js";
import texts from "../../texts/en/clients.js";

/** @type {Record<number, string>} */
const VERSIONS = { 3: "3.1", 4: "3.1.1", 5: "5.0" };

const SHOWN_MAX = 40; // of a client id

/** @param {Api.ClientObject} client */
export const addressOf = ({ ip_address: address, port }) => {
  if (!address) return "";
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
};

/** @param {Api.ClientObject} client */
export const versionOf = ({ proto_ver: version }) => VERSIONS[version ?? 0] ?? "";

/** A client id, cut where it is very long. @param {{ id: string }} props */
export const ClientLink = ({ id }) => html`
  <a class="nowrap" href=${link("clients", id)}
    title=${id.length > SHOWN_MAX ? id : undefined}>${cut(id, SHOWN_MAX)}</a>`;

/** @param {{ isConnected: boolean }} props */
export const StateBadge = ({ isConnected }) => html`
  <span class=${`badge ${isConnected ? "good" : "warn"}`}>${isConnected ? texts.connected : texts.away}</span>`;

/** @param {Api.ClientObject} row */
const since = (row) => {
  const at = time(row.connected ? row.connected_at : row.disconnected_at);
  const [day, clock] = at.split(" ");
  return html`<span title=${at}>${clock && day === time(new Date().toISOString()).split(" ")[0] ? clock : at}</span>`;
};

/** Whether messages may wait in storage, which are not counted. @param {Api.ClientObject} row */
export const isUncounted = (row) => row.asleep || Boolean(row.behind_since);

/** @param {Api.ClientObject} row */
const backlog = (row) => {
  if (!isUncounted(row)) return count(row.mqueue_len);
  return row.mqueue_len ? `≥ ${count(row.mqueue_len)}` : NONE;
};

/** @param {Api.ClientObject} row */
const behind = ({ behind_since: since }) => since && html`
  <span class="nowrap" title=${texts.behindSince(time(since))}>${duration(secondsSince(since))}</span>`;

/** @type {import("../../parts/table.js").Column<Api.ClientObject>[]} */
export const COLUMNS = [
  factColumn("clientid", { kind: "code", isHead: true, show: (row) => html`<${ClientLink} id=${row.clientid} />` }),
  factColumn("connected", { title: texts.state, show: (row) => html`<${StateBadge} isConnected=${row.connected} />` }),
  factColumn("username", { show: (row) => html`<span class="nowrap">${cut(row.username ?? "", 30)}</span>` }),
  factColumn("ip_address", { kind: "code", show: addressOf }),
  factColumn("proto_ver", { kind: "text", show: versionOf }),
  { key: "since", title: texts.since, kind: "time", show: since },
  factColumn("subscriptions_cnt", { key: "subscriptions", isSortable: true }),
  factColumn("inflight_cnt", { key: "inflight", isSortable: true }),
  factColumn("mqueue_len", { key: "backlog", isSortable: true, show: backlog }),
  factColumn("behind_since", { key: "behind", title: texts.behind, kind: "number", isSortable: true, show: behind }),
  factColumn("mqueue_dropped", { key: "drops", isSortable: true }),
];

/** What a list asks of each client. */
export const FIELDS = [
  "clientid", "connected", "username", "ip_address", "port", "listener", "proto_ver", "connected_at", "disconnected_at",
  "subscriptions_cnt", "inflight_cnt", "mqueue_len", "behind_since", "mqueue_dropped", "durable", "asleep",
];
