// @ts-check
/** Begins a trace that is recorded. */
import { html, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { Dialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import common from "../../texts/en/everywhere.js";
import texts from "../../texts/en/traces.js";
import { SubjectFields } from "./subject.js";

const NEW = { name: "", type: "clientid", value: "", payload: "hidden", formatter: "text", lasts: "600" };

/** @param {{ onClose: (isDone: boolean) => void }} props */
export const TraceDialog = ({ onClose }) => {
  const [one, setOne] = useState(NEW);
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) => setOne({ ...one, [name]: value });
  const { run, isRunning, error } = useAction(async () => {
    const { name, type, value, payload, formatter, lasts } = one;
    const end = Math.floor(Date.now() / 1000) + Number(lasts);
    await api.post("trace", { name, type, [type]: value, payload_encode: payload, formatter, end_at: end });
    tell(texts.begun(name));
  });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (await run()) onClose(true);
  };
  const isOfName = error?.field === "name" || error?.code === "ALREADY_EXISTS";
  return html`
    <${Dialog} title=${texts.beginTitle} onClose=${() => onClose(false)}>
      <form onSubmit=${submit}>
        <${Field} label=${texts.name} hint=${texts.nameHint} value=${one.name} onInput=${put("name")} isRequired
          autocomplete="off"
          error=${isOfName ? error.message : ""} />
        <${SubjectFields} subject=${one} setSubject=${setOne} />
        <${Field} label=${texts.format} value=${one.formatter} onInput=${put("formatter")} options=${texts.formats} />
        <${Field} label=${texts.lasts} value=${one.lasts} onInput=${put("lasts")} options=${texts.durations} />
        <${ErrorNote} error=${isOfName ? null : error} />
        <footer>
          <button type="button" onClick=${() => onClose(false)}>${common.cancel}</button>
          <button type="submit" class="main" disabled=${isRunning}>${texts.beginAct}</button>
        </footer>
      </form>
    <//>`;
};
