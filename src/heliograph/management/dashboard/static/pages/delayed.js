// @ts-check
/** Messages that are published later: listed, shown, deleted before they are. */
import { html } from "../kernel/html.js";
import { path } from "../kernel/api.js";
import { duration, time } from "../kernel/format.js";
import { KeptMessages } from "../parts/kept_messages.js";
import texts from "../texts/en/delayed.js";

/** @type {import("../parts/kept_messages.js").Kind<Api.DelayedMessage>} */
const KIND = {
  words: texts,
  placeOf: (row) => path("mqtt/delayed/messages/{node}/{msgid}", row.node, row.msgid),
  asked: { max_payload_bytes: 262144 },
  columns: [
    { key: "expected_at", title: texts.due, kind: "time", show: (row) => time(row.expected_at) },
    { key: "delayed_remaining", title: texts.left, kind: "number", show: (row) => duration(row.delayed_remaining) },
  ],
  facts: (one) => [[texts.sentAt, time(one.publish_at)], [texts.due, time(one.expected_at)]],
  deleteText: (row) => texts.deleteText(row.topic, time(row.expected_at)),
};

export default function DelayedPage() {
  return html`<${KeptMessages} kind=${KIND} where="mqtt/delayed/messages" />`;
}
