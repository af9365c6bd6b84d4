// @ts-check
/** What a node knows of a client's connection and session. */
import { html } from "../../kernel/html.js";
import { bytes, count, duration, secondsSince, time } from "../../kernel/format.js";
import { Facts } from "../../parts/facts.js";
import texts from "../../texts/en/client.js";
import { addressOf, StateBadge, versionOf } from "../clients/columns.js";

const FOR_EVER_S = 0xffffffff;

/** @param {boolean} value */
const yesNo = (value) => (value ? texts.yes : texts.no);

/**
 * All that is known of a client that is connected; of another one, its page shows less.
 * @typedef {{ [Key in keyof Api.ClientObject]-?: NonNullable<Api.ClientObject[Key]> }} Client
 */

/** @param {string | null | undefined} moment */
const since = (moment) => (moment ? texts.ago(time(moment), duration(secondsSince(moment))) : time(moment));

/** @param {Client} client */
const expiry = ({ expiry_interval: seconds }) => {
  if (seconds === 0) return texts.withConnection;
  return seconds >= FOR_EVER_S ? texts.never : duration(seconds);
};

/** @param {Client} client @returns {[string, unknown][]} */
const connection = (client) => [
  [texts.state, html`<${StateBadge} isConnected=${client.connected} />`],
  ...(client.connected ? connected(client)
    : /** @type {[string, unknown][]} */ ([[texts.disconnectedAt, since(client.disconnected_at)]])),
];

/** @param {Client} client @returns {[string, unknown][]} */
const connected = (client) => [
  [texts.connectedAt, since(client.connected_at)],
  [texts.username, client.username ?? texts.no],
  [texts.address, addressOf(client)],
  [texts.listener, client.listener],
  [texts.zone, client.zone],
  [texts.protocol, texts.mqtt(versionOf(client))],
  [texts.keepalive, client.keepalive ? duration(client.keepalive) : texts.no],
  [texts.cleanStart, yesNo(client.clean_start)],
  [texts.superuser, yesNo(client.is_superuser)],
  ...optional(texts.mountpoint, client.mountpoint),
  ...optional(
    texts.attributes, Object.entries(client.client_attrs).map(([name, value]) => `${name} = ${value}`).join(", ")),
];

/** @param {string} name @param {string | null} value @returns {[string, unknown][]} */
const optional = (name, value) => (value ? [[name, value]] : []);

/** @param {Client} client @returns {[string, unknown][]} */
const session = (client) => [
  [texts.createdAt, time(client.created_at)],
  [texts.durable, client.durable ? texts.durableYes : texts.durableNo],
  [texts.expiry, expiry(client)],
  [texts.subscriptions, texts.of(client.subscriptions_cnt, client.subscriptions_max)],
  [texts.inflight, texts.of(client.inflight_cnt, client.inflight_max)],
  [texts.queue, texts.of(client.mqueue_len, client.mqueue_max)],
  [texts.queueBytes, bytes(client.heap_size)],
  ...optional(texts.behind, client.behind_since && texts.behindSince(since(client.behind_since))),
  [texts.awaitingRel, texts.of(client.awaiting_rel_cnt, client.awaiting_rel_max)],
];

/** @param {Client} client @returns {[string, unknown][]} */
const traffic = (client) => [
  [texts.received, texts.messages(client, "recv")],
  [texts.sent, texts.messages(client, "send")],
  [texts.packets, `${count(client.recv_pkt)}, ${count(client.send_pkt)}`],
  [texts.bytes, `${bytes(client.recv_oct)}, ${bytes(client.send_oct)}`],
];

/** @param {Client} client @returns {[string, unknown][]} */
const drops = (client) => [
  [texts.all, count(client["send_msg.dropped"])],
  [texts.queueFull, count(client["send_msg.dropped.queue_full"])],
  [texts.expired, count(client["send_msg.dropped.expired"])],
  [texts.tooLarge, count(client["send_msg.dropped.too_large"])],
  [texts.pubrelTimeout, count(client["recv_msg.dropped.await_pubrel_timeout"])],
];

/** @param {{ client: Client }} props */
export const ClientFacts = ({ client }) => html`
  <div class="cards">
    <${Facts} title=${texts.connection} rows=${connection(client)} />
    <${Facts} title=${texts.session} rows=${session(client)} />
    ${client.connected && html`<${Facts} title=${texts.traffic} rows=${traffic(client)} />`}
    <${Facts} title=${texts.drops} rows=${drops(client)} />
  </div>`;
