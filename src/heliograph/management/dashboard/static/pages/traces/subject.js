// @ts-check
/** The fields that say what a trace is about. */
import { html } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import texts from "../../texts/en/traces.js";

/** @typedef {{ type: string, value: string, payload: string }} Subject */

/**
 * @template {Subject} T
 * @param {{ subject: T, setSubject: (subject: T) => void, error?: string }} props
 */
export const SubjectFields = ({ subject, setSubject, error }) => {
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    setSubject({ ...subject, [name]: value });
  return html`
    <${Field} label=${texts.subject} value=${subject.type} onInput=${put("type")} options=${texts.types} />
    <${Field} label=${texts.values[subject.type]} value=${subject.value} onInput=${put("value")} isRequired
      autocomplete="off"
      error=${error} />
    <${Field} label=${texts.payload} value=${subject.payload} onInput=${put("payload")} options=${texts.payloads} />`;
};
