// @ts-check
/** The arguments of `republish`: templates of the message that is made of a row. */
import { html } from "../../kernel/html.js";
import { recordOf } from "../../kernel/own.js";
import { CheckField, Field } from "../../parts/field.js";
import everywhere from "../../texts/en/rule.js";

const texts = everywhere.actions;
const PROPERTIES = ["Payload-Format-Indicator", "Message-Expiry-Interval", "Content-Type", "Response-Topic",
  "Correlation-Data"];

/** @param {string} text */
const qosOf = (text) => (/^[012]$/.test(text.trim()) ? Number(text) : text);

/** @param {string} text */
const retainOf = (text) => (text.trim() === "true" ? true : text.trim() === "false" ? false : text);

/**
 * @typedef {Record<string, unknown>} Args
 * @param {{ args: Args, onInput: (args: Args) => void }} props
 */
export const RepublishFields = ({ args, onInput }) => {
  const set = (/** @type {string} */ name, /** @type {unknown} */ value) => onInput({ ...args, [name]: value });
  const properties = recordOf(args.mqtt_properties);
  const setProperty = (/** @type {string} */ name, /** @type {string} */ value) => {
    const { [name]: _, ...others } = properties;
    set("mqtt_properties", value ? { ...others, [name]: value } : others);
  };
  return html`
    <${Field} label=${texts.topic} value=${args.topic ?? ""} hint=${texts.topicHint}
      onInput=${(/** @type {string} */ text) => set("topic", text)} isRequired />
    <${Field} label=${texts.payload} value=${args.payload ?? "\${payload}"} rows=${2} hint=${texts.payloadHint}
      onInput=${(/** @type {string} */ text) => set("payload", text)} />
    <div class="beside">
      <${Field} label=${texts.qos} value=${String(args.qos ?? "\${qos}")} hint=${texts.qosHint}
        onInput=${(/** @type {string} */ text) => set("qos", qosOf(text))} />
      <${Field} label=${texts.retain} value=${String(args.retain ?? "\${retain}")} hint=${texts.retainHint}
        onInput=${(/** @type {string} */ text) => set("retain", retainOf(text))} />
    </div>
    <details>
      <summary>${texts.more}</summary>
      <${Field} label=${texts.properties} value=${args.user_properties ?? ""} hint=${texts.propertiesHint}
        onInput=${(/** @type {string} */ text) => set("user_properties", text)} />
      ${PROPERTIES.map((name) => html`
        <${Field} key=${name} label=${name} value=${properties[name] ?? ""}
          onInput=${(/** @type {string} */ text) => setProperty(name, text)} />`)}
      <${CheckField} label=${texts.direct} value=${args.direct_dispatch === true}
        onInput=${(/** @type {boolean} */ value) => set("direct_dispatch", value)} />
    </details>`;
};
