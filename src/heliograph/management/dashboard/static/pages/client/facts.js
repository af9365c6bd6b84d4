// @ts-check
/** What a node knows of a client's connection and session. */
import { html } from "../../kernel/html.js";
import { duration, secondsSince, time } from "../../kernel/format.js";
import { Facts } from "../../parts/facts.js";
import texts from "../../texts/en/client.js";
import { addressOf, StateBadge, versionOf } from "../clients/columns.js";
import { FACTS } from "../clients/declared.js";
import { shownFact } from "../clients/facts.js";

const FOR_EVER_S = 0xffffffff;

/**
 * All that is known of a client that is connected; of another one, its page shows less.
 * @typedef {{ [Key in keyof Api.ClientObject]-?: NonNullable<Api.ClientObject[Key]> }} Client
 * @typedef {keyof Client} Name
 */

/** Where facts stand; one that is empty is left out. @type {Record<string, Name[]>} */
const PLACES = {
  connection: ["connected", "connected_at", "username", "ip_address", "listener", "zone", "proto_ver", "keepalive",
    "clean_start", "is_superuser", "mountpoint", "client_attrs"],
  away: ["connected", "disconnected_at"],
  session: ["created_at", "durable", "expiry_interval", "subscriptions_cnt", "inflight_cnt", "mqueue_len", "heap_size",
    "behind_since", "awaiting_rel_cnt"],
  traffic: ["recv_msg", "send_msg", "recv_pkt", "send_pkt", "recv_oct", "send_oct"],
  drops: ["send_msg.dropped", "send_msg.dropped.queue_full", "send_msg.dropped.expired", "send_msg.dropped.too_large",
    "recv_msg.dropped.await_pubrel_timeout"],
};

/** @param {string} moment */
const since = (moment) => texts.ago(time(moment), duration(secondsSince(moment)));

/** Facts of which there is more to say than their values. @type {Partial<Record<Name, (client: Client) => unknown>>} */
const WORDS = {
  connected: ({ connected }) => html`<${StateBadge} isConnected=${connected} />`,
  connected_at: ({ connected_at: moment }) => since(moment),
  disconnected_at: ({ disconnected_at: moment }) => since(moment),
  username: ({ username }) => username ?? texts.no,
  ip_address: addressOf,
  proto_ver: versionOf,
  keepalive: ({ keepalive }) => (keepalive ? duration(keepalive) : texts.no),
  durable: ({ durable }) => (durable ? texts.durableYes : texts.durableNo),
  expiry_interval: ({ expiry_interval: seconds }) => {
    if (seconds === 0) return texts.withConnection;
    return seconds >= FOR_EVER_S ? texts.never : duration(seconds);
  },
  subscriptions_cnt: (client) => texts.of(client.subscriptions_cnt, client.subscriptions_max),
  inflight_cnt: (client) => texts.of(client.inflight_cnt, client.inflight_max),
  mqueue_len: (client) => texts.of(client.mqueue_len, client.mqueue_max),
  awaiting_rel_cnt: (client) => texts.of(client.awaiting_rel_cnt, client.awaiting_rel_max),
  behind_since: ({ behind_since: moment }) => moment && texts.behindSince(since(moment)),
  recv_msg: (client) => texts.messages(client, "recv"),
  send_msg: (client) => texts.messages(client, "send"),
};

/** @param {{ client: Client, title: string, place: string }} props */
const Place = ({ client, title, place }) => {
  const rows = PLACES[place].map((name) => [name === "connected" ? texts.state : FACTS[name].title,
    (WORDS[name] ?? shownFact(name))(client)]);
  return html`<${Facts} title=${title} rows=${rows.filter(([, value]) => value)} />`;
};

/** @param {{ client: Client }} props */
export const ClientFacts = ({ client }) => html`
  <div class="cards">
    <${Place} title=${texts.connection} client=${client} place=${client.connected ? "connection" : "away"} />
    <${Place} title=${texts.session} client=${client} place="session" />
    ${client.connected && html`<${Place} title=${texts.traffic} client=${client} place="traffic" />`}
    <${Place} title=${texts.drops} client=${client} place="drops" />
  </div>`;
