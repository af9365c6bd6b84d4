// @ts-check
/** What the client publishes. */
import { html, submitting } from "../../kernel/html.js";
import { useAction } from "../../kernel/resource.js";
import { useStore } from "../../kernel/store.js";
import { CheckField, Field } from "../../parts/field.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import { publish, status } from "./client.js";
import { FORMATS } from "./payload.js";
import texts from "../../texts/en/mqtt_client.js";

/**
 * @typedef {import("./options.js").Publication} Values
 * @param {{ values: Values, set: (change: Partial<Values>) => void }} props
 */
export const PublishCard = ({ values, set }) => {
  const now = useStore(status);
  const { run, isRunning, error } = useAction(() => publish(values));
  const submit = submitting(async () => {
    if (await run()) tell(texts.published(values.topic));
  });
  return html`
    <section class="card" aria-labelledby="publish-title">
      <h2 id="publish-title">${texts.publish}</h2>
      <form onSubmit=${submit}>
        <${Field} label=${texts.topic} value=${values.topic} isRequired
          onInput=${(/** @type {string} */ topic) => set({ topic })} autocomplete="off" spellcheck=${false} />
        <${Field} label=${texts.payload} value=${values.payload} rows="4"
          onInput=${(/** @type {string} */ payload) => set({ payload })} />
        <div class="filters">
          <${Field} label=${texts.format} value=${values.format} options=${FORMATS}
            onInput=${(/** @type {string} */ format) => set({ format })} />
          <${Field} label=${texts.qos} value=${values.qos} options=${["0", "1", "2"]}
            onInput=${(/** @type {string} */ qos) => set({ qos })} />
          <${CheckField} label=${texts.retain} value=${values.retain}
            onInput=${(/** @type {boolean} */ retain) => set({ retain })} />
        </div>
        ${now.version === "5" && html`<details><summary>${texts.properties}</summary>
          <${Properties} values=${values} set=${set} /></details>`}
        <${ErrorNote} error=${error} />
        <button type="submit" class="main" disabled=${now.state !== "on" || isRunning}>${texts.publish}</button>
        ${now.state !== "on" && html` <small>${texts.notConnected}</small>`}
      </form>
    </section>`;
};

/** @param {{ values: Values, set: (change: Partial<Values>) => void }} props */
const Properties = ({ values, set }) => html`
  <div class="pair">
    <${Field} label=${texts.contentType} value=${values.contentType}
      onInput=${(/** @type {string} */ contentType) => set({ contentType })} />
    <${Field} label=${texts.messageExpiry} value=${values.expiry} type="number" min="0" max="4294967295"
      onInput=${(/** @type {string} */ expiry) => set({ expiry })} />
    <${Field} label=${texts.responseTopic} value=${values.responseTopic}
      onInput=${(/** @type {string} */ responseTopic) => set({ responseTopic })} />
    <${Field} label=${texts.correlation} value=${values.correlation}
      onInput=${(/** @type {string} */ correlation) => set({ correlation })} />
  </div>
  <${Field} label=${texts.user} hint=${texts.userHint} value=${values.user} rows="2"
    onInput=${(/** @type {string} */ user) => set({ user })} />`;
