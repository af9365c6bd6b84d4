// @ts-check
/** Where and as whom the client connects. */
import { html, submitting, useEffect } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { useStore } from "../../kernel/store.js";
import { CheckField, Field } from "../../parts/field.js";
import { Loaded } from "../../parts/notice.js";
import { connect, disconnect, status } from "./client.js";
import texts from "../../texts/en/mqtt_client.js";

const QOS = ["0", "1", "2"];
const VERSIONS = [{ value: "5", label: texts.versions[5] }, { value: "4", label: texts.versions[4] }];

/** As this browser reaches it: at the host that it has the page from. @param {Api.WebSocketPlace} one */
const urlOf = ({ scheme, port, path }) => `${scheme}://${location.hostname}:${port}${path}`;

/**
 * @typedef {import("./options.js").Connection} Values
 * @param {{ values: Values, set: (change: Partial<Values>) => void }} props
 */
export const ConnectionCard = ({ values, set }) => {
  const places = useResource("websockets", (signal) => api.get("heliograph/websockets", {}, signal));
  const now = useStore(status);
  useEffect(() => {
    const first = places.data?.find((one) => one.scheme === "wss" || location.protocol === "http:");
    if (!values.url && first) set({ url: urlOf(first) });
  }, [places.data]);
  const submit = submitting(() => {
    if (now.state === "off") connect(values);
    else disconnect();
  });
  const isFree = now.state === "off";
  return html`
    <section class="card" aria-labelledby="connection-title">
      <h2 id="connection-title">${texts.connection}</h2>
      <form onSubmit=${submit}>
        <fieldset disabled=${!isFree} class="bare">
          <${Loaded} of=${places}>${(/** @type {Api.WebSocketPlace[]} */ list) =>
            html`<${Address} list=${list} url=${values.url} set=${set} />`}<//>
          <div class="pair">
            <${Field} label=${texts.clientid} value=${values.clientid}
              onInput=${(/** @type {string} */ clientid) => set({ clientid })} autocomplete="off" />
            <${Field} label=${texts.version} value=${values.version} options=${VERSIONS}
              onInput=${(/** @type {string} */ version) => set({ version })} />
            <${Field} label=${texts.username} value=${values.username}
              onInput=${(/** @type {string} */ username) => set({ username })} autocomplete="off" />
            <${Field} label=${texts.password} value=${values.password} type="password"
              onInput=${(/** @type {string} */ password) => set({ password })} autocomplete="off" />
          </div>
          <details><summary>${texts.more}</summary><${More} values=${values} set=${set} /></details>
        </fieldset>
        <${State} now=${now} />
        <button type="submit" class=${isFree ? "main" : ""}>${isFree ? texts.connect : texts.disconnect}</button>
      </form>
    </section>`;
};

/** @param {{ list: Api.WebSocketPlace[], url: string, set: (change: Partial<Values>) => void }} props */
const Address = ({ list, url, set }) => {
  const urls = list.map((one) => ({ value: urlOf(one), label: one.id }));
  const chosen = urls.some(({ value }) => value === url) ? url : "";
  return html`
    ${list.length === 0 && html`<p class="note warn">${texts.noListeners}</p>`}
    <div class="pair">
      <${Field} label=${texts.listener} value=${chosen} options=${[...urls, { value: "", label: texts.other }]}
        onInput=${(/** @type {string} */ value) => value && set({ url: value })} />
      <${Field} label=${texts.url} value=${url} isRequired onInput=${(/** @type {string} */ value) =>
        set({ url: value })}
        pattern="wss?://.+" title=${texts.urlHint} autocomplete="off" />
    </div>`;
};

/** @param {{ values: Values, set: (change: Partial<Values>) => void }} props */
const More = ({ values, set }) => html`
  <div class="pair">
    <${Field} label=${texts.keepalive} value=${values.keepalive} type="number" min="0" max="65535"
      onInput=${(/** @type {string} */ keepalive) => set({ keepalive })} />
    <${Field} label=${texts.expiry} value=${values.expiry} type="number" min="0" max="4294967295"
      onInput=${(/** @type {string} */ expiry) => set({ expiry })} disabled=${values.version !== "5"} />
  </div>
  <${CheckField} label=${texts.clean} value=${values.clean} onInput=${(/** @type {boolean} */ clean) =>
    set({ clean })} />
  <${Field} label=${texts.willTopic} hint=${texts.willHint} value=${values.willTopic}
    onInput=${(/** @type {string} */ willTopic) => set({ willTopic })} />
  <div class="pair">
    <${Field} label=${texts.willPayload} value=${values.willPayload}
      onInput=${(/** @type {string} */ willPayload) => set({ willPayload })} />
    <${Field} label=${texts.willQos} value=${values.willQos} options=${QOS}
      onInput=${(/** @type {string} */ willQos) => set({ willQos })} />
  </div>
  <${CheckField} label=${texts.willRetain} value=${values.willRetain}
    onInput=${(/** @type {boolean} */ willRetain) => set({ willRetain })} />`;

/** @param {{ now: import("./client.js").Status }} props */
const State = ({ now }) => html`
  ${now.problem && html`<p class="note error" role="alert">${now.problem}</p>`}
  <p role="status">
    <span class=${`badge ${now.state === "on" ? "good" : ""}`}>${texts.states[now.state]}</span>
    ${now.state === "on" && html` <small>${texts.onAs(now.clientid, now.url)} ${now.isKnown && texts.known}</small>`}
  </p>`;
