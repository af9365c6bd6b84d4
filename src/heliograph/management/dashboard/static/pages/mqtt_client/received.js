// @ts-check
/** The messages that came and those that were sent. */
import { html, useState } from "../../kernel/html.js";
import { bytes, time } from "../../kernel/format.js";
import { useStore } from "../../kernel/store.js";
import { Field } from "../../parts/field.js";
import { Empty } from "../../parts/notice.js";
import { subscriptions } from "./client.js";
import { clearMessages, messages, pause } from "./messages.js";
import { matches } from "./topics.js";
import texts from "../../texts/en/mqtt_client.js";

const strict = new TextDecoder("utf-8", { fatal: true });

/** As text where it is text, else as hex. @param {Uint8Array} payload */
const shownPayload = (payload) => {
  try {
    return strict.decode(payload);
  } catch {
    return Array.from(payload, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  }
};

/** @param {string} text JSON with its parts on lines of their own; else the same. */
const indented = (text) => {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

export const MessagesCard = () => {
  const { isPaused, shown, since } = useStore(messages);
  const subscribed = useStore(subscriptions);
  const [search, setSearch] = useState("");
  const [only, setOnly] = useState("");
  const wanted = shown.filter(({ topic, payload }) => (!only || matches(only, topic))
    && (!search || topic.includes(search) || shownPayload(payload).includes(search)));
  const options = [{ value: "", label: texts.everything }, ...subscribed.map(({ filter, name }) =>
    ({ value: filter, label: name || filter }))];
  return html`
    <section class="card messages" aria-labelledby="messages-title">
      <h2 id="messages-title">${texts.messages}</h2>
      <div class="filters">
        <${Field} label=${texts.search} value=${search} type="search" onInput=${setSearch} />
        <${Field} label=${texts.only} value=${only} options=${options} onInput=${setOnly} />
        <button type="button" aria-pressed=${isPaused} onClick=${() => pause(!isPaused)}>
          ${isPaused ? texts.go : texts.pause}</button>
        <button type="button" onClick=${clearMessages}>${texts.clear}</button>
      </div>
      <p><small>${texts.bounded} ${isPaused && texts.since(since)}</small></p>
      ${shown.length === 0 ? html`<${Empty}>${texts.none}<//>` : wanted.length === 0
        ? html`<${Empty}>${texts.noneMatches}<//>`
        : html`<ol class="received">${wanted.map((one) => html`<${Message} key=${one.id} one=${one}
          subscribed=${subscribed} />`)}</ol>`}
    </section>`;
};

/**
 * @param {{ one: import("./messages.js").Message, subscribed: import("./options.js").Subscription[] }} props
 */
const Message = ({ one, subscribed }) => {
  const by = one.isSent ? [] : subscribed.filter(({ filter }) => matches(filter, one.topic));
  const properties = Object.entries(one.properties).filter(([name]) => name !== "payloadFormatIndicator");
  return html`
    <li class=${by.length ? `colour-${by[0].colour}` : "own"}>
      <div class="actions"><code class="topic">${one.topic}</code>
        <span class="badge">${one.isSent ? texts.sent : texts.received}</span>
        ${by.filter(({ name }) => name).map(({ name }) => html`<span class="badge" key=${name}>${name}</span>`)}
        <small>${time(one.at)} · ${texts.qos} ${one.qos}${one.retain ? ` · ${texts.retained}`
          : ""} · ${bytes(one.size)}</small>
      </div>
      <pre tabindex="0" aria-label=${texts.payload}>${indented(shownPayload(one.payload))}</pre>
      ${one.size > one.payload.length && html`<small>${texts.of(one.payload.length, bytes(one.size))}</small>`}
      ${properties.length > 0 && html`<small class="code">${properties.map(([name, value]) =>
        `${name}: ${propertyText(value)}`).join(" · ")}</small>`}
    </li>`;
};

/** @param {unknown} value */
const propertyText = (value) => (value instanceof Uint8Array ? shownPayload(value) : typeof value === "string" ? value
  : JSON.stringify(value));
