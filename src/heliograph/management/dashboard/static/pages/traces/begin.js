// @ts-check
/** Begins a trace that is recorded. */
import { html, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { ActDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { tell } from "../../parts/notice.js";
import texts from "../../texts/en/traces.js";
import { SubjectFields } from "./subject.js";

const NEW = { name: "", type: "clientid", value: "", payload: "hidden", formatter: "text", lasts: "600" };

/**
 * @typedef {import("../../kernel/resource.js").Failure} Failure
 * @param {Failure} error
 */
const isOfName = ({ field, code }) => field === "name" || code === "ALREADY_EXISTS";

/** @param {{ onClose: (isDone: boolean) => void }} props */
export const TraceDialog = ({ onClose }) => {
  const [one, setOne] = useState(NEW);
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) => setOne({ ...one, [name]: value });
  const act = async () => {
    const { name, type, value, payload, formatter, lasts } = one;
    const end = Math.floor(Date.now() / 1000) + Number(lasts);
    await api.post("trace", { name, type, [type]: value, payload_encode: payload, formatter, end_at: end });
    tell(texts.begun(name));
  };
  return html`
    <${ActDialog} title=${texts.beginTitle} action=${texts.beginAct} act=${act} onClose=${onClose}
      isShown=${(/** @type {Failure} */ error) => !isOfName(error)}>${(/** @type {Failure | null} */ error) => html`
      <${Field} label=${texts.name} hint=${texts.nameHint} value=${one.name} onInput=${put("name")} isRequired
        autocomplete="off" error=${error && isOfName(error) ? error.message : ""} />
      <${SubjectFields} subject=${one} setSubject=${setOne} />
      <${Field} label=${texts.format} value=${one.formatter} onInput=${put("formatter")} options=${texts.formats} />
      <${Field} label=${texts.lasts} value=${one.lasts} onInput=${put("lasts")} options=${texts.durations} />`}<//>`;
};
