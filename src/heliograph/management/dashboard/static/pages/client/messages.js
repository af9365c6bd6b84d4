// @ts-check
/** Messages that wait for a client or are in flight to it, with their payloads. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { cut, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { useCursor } from "../../parts/cursor.js";
import { Dialog } from "../../parts/dialog.js";
import { Loaded } from "../../parts/notice.js";
import { Payload, PayloadLine } from "../../parts/payload.js";
import { Pager, Table } from "../../parts/table.js";
import texts from "../../texts/en/client_messages.js";
import { ClientLink } from "../clients/columns.js";
import { useTurn } from "./turn.js";

const LIMIT = 50;
const BYTES = "1MB"; // of all payloads of a page: one that is longer is cut, and the next page goes on behind it
const FIRST = "none";
const END = "end_of_data";
const HTTP_API = "http_api"; // who publishes there is no client

/** @param {Api.ClientMessage} row */
const publisher = ({ from_clientid: id }) => (id && id !== HTTP_API ? html`<${ClientLink} id=${id} />` : id);

/**
 * @param {(row: Api.ClientMessage) => void} onShow
 * @returns {import("../../parts/table.js").Column<Api.ClientMessage>[]}
 */
const columnsOf = (onShow) => [
  { key: "topic", title: texts.topic, kind: "code", isHead: true, show: (row) => html`
    <span title=${row.topic}>${cut(row.topic, 100)}</span>` },
  { key: "qos", title: texts.qos, kind: "number" },
  { key: "publish_at", title: texts.publishedAt, kind: "time", show: (row) => time(row.publish_at) },
  { key: "from", title: texts.from, kind: "code", show: publisher },
  { key: "payload", title: texts.payload, kind: "code", show: (row) => html`
    <${PayloadLine} base64=${row.payload} size=${row.payload_bytes} />` },
  { key: "actions", title: texts.actions, kind: "actions", show: (row) => html`
    <button type="button" onClick=${() => onShow(row)}>${texts.show}</button>` },
];

/** @param {{ id: string, turn: number, kind: "inflight" | "mqueue" }} props */
export const MessagesTab = ({ id, turn, kind }) => {
  const place = useCursor(id, FIRST);
  const [shown, setShown] = useState(/** @type {Api.ClientMessage | null} */ (null));
  const list = useResource(JSON.stringify([id, kind, place.cursor]), (signal) => api.get(
    path(`clients/{clientid}/${kind}_messages`, id),
    { position: place.cursor, limit: LIMIT, max_payload_bytes: BYTES }, signal));
  useTurn(turn, list.reload);
  const caption = kind === "mqueue" ? texts.queueCaption : texts.inflightCaption;
  return html`
    <p class="quiet">${texts.cutHint}</p>
    <${Loaded} of=${list}>${(/** @type {Api.ClientMessages} */ { data, meta }) => html`
      <${Table} caption=${caption} columns=${columnsOf(setShown)} rows=${data} empty=${texts.none}
        isBusy=${list.isLoading}
        rowKey="msgid inserted_at" />
      <${Pager} hasMore=${meta.position !== END} hasBefore=${place.hasBefore} onBefore=${place.before}
        onMore=${() => place.next(meta.position)} />`}<//>
    ${shown && html`<${Dialog} title=${cut(shown.topic, 80)} onClose=${() => setShown(null)} isWide>
      <p class="code quiet">${texts.id}: ${shown.msgid}</p>
      <${Payload} base64=${shown.payload} size=${shown.payload_bytes} />
    <//>`}`;
};
