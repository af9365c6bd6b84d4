// @ts-check
/** One stored message: where it came from, its properties, its payload. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { Dialog } from "../../parts/dialog.js";
import { FactList } from "../../parts/facts.js";
import { Loaded } from "../../parts/notice.js";
import { Payload } from "../../parts/payload.js";
import texts from "../../texts/en/history.js";

const FIRST_BYTES = 16384;

/** @param {{ message: Api.StoredMessageObject, onClose: () => void }} props */
export const MessageDialog = ({ message, onClose }) => {
  const where = path("heliograph/messages/{id}", message.id);
  const found = useResource(where, (signal) => api.get(where, { max_payload_bytes: FIRST_BYTES }, signal));
  const load = async () => (await api.get(where)).payload;
  return html`
    <${Dialog} title=${texts.message} isWide onClose=${onClose}>
      <${Loaded} of=${found}>${(/** @type {Api.StoredMessageObject} */ one) => html`
        <${FactList} rows=${[
          [texts.topicName, html`<code>${one.topic}</code>`],
          [texts.client, html`<a href=${link("clients", one.from_clientid)}>${one.from_clientid}</a>`],
          [texts.username, one.from_username ?? "–"],
          [texts.receivedAt, time(one.received_at)],
          [texts.storedAt, time(one.stored_at)],
          [texts.qos, one.qos],
          [texts.retain, one.retain ? texts.yes : texts.no],
          [texts.id, html`<code>${one.msgid}</code>`],
          [texts.properties, propertiesOf(one.properties)],
        ]} />
        <p class="topic-links"><a href=${link("message_way", one.msgid)}>${texts.way}</a></p>
        <h3>${texts.payload}</h3>
        <${Payload} base64=${one.payload} size=${one.payload_bytes} load=${load} />`}<//>
    <//>`;
};

/** @param {Record<string, unknown>} properties */
const propertiesOf = (properties) => {
  const names = Object.keys(properties);
  return names.length === 0 ? texts.noProperties : html`${names.map((name) =>
    html`<div key=${name}><code>${name}: ${properties[name]}</code></div>`)}`;
};
