// @ts-check
/** Retained messages: found by a topic filter, shown, deleted. */
import { html } from "../kernel/html.js";
import { path } from "../kernel/api.js";
import { time } from "../kernel/format.js";
import { replaceQuery } from "../kernel/router.js";
import { SearchField } from "../parts/field.js";
import { KeptMessages } from "../parts/kept_messages.js";
import texts from "../texts/en/retained.js";

/** @type {import("../parts/kept_messages.js").Kind<Api.RetainedMessage>} */
const KIND = {
  words: texts,
  placeOf: (row) => path("mqtt/retainer/message/{topic}", row.topic),
  columns: [{ key: "publish_at", title: texts.publishedAt, kind: "time", show: (row) => time(row.publish_at) }],
  facts: (one) => [[texts.publishedAt, time(one.publish_at)]],
  deleteText: (row) => texts.deleteText(row.topic),
};

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function RetainedPage({ route }) {
  const topic = route.query.topic ?? "";
  const search = (/** @type {string} */ text) => replaceQuery({ topic: text });
  return html`<${KeptMessages} kind=${KIND} where="mqtt/retainer/messages" query=${{ topic }}>
    <div class="filters" role="search"><${SearchField} label=${texts.filter} hint=${texts.filterHint} value=${topic}
      onSearch=${search} /></div><//>`;
}
