// @ts-check
/** A payload held against a schema. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { Field } from "../../parts/field.js";
import { ErrorNote } from "../../parts/notice.js";
import everywhere from "../../texts/en/schemas.js";

const texts = everywhere.check;

/** @param {{ name: string, type: string }} props */
export const PayloadCheck = ({ name, type }) => {
  const [payload, setPayload] = useState("");
  const [encoding, setEncoding] = useState("plain");
  const [message_type, setMessage] = useState("");
  const [checked, setChecked] = useState(/** @type {Api.CheckedPayload | null} */ (null));
  const check = useAction(async () => {
    setChecked(null);
    setChecked(await api.post(path("heliograph/schemas/{name}/check", name), { payload, encoding, message_type }));
  });
  const submit = submitting(() => check.run());
  return html`
    <form class="card" onSubmit=${submit}>
      <h2>${texts.title}</h2>
      <p class="quiet">${texts.hint}</p>
      <${Field} label=${texts.payload} value=${payload} onInput=${setPayload} rows=${6} />
      <div class="beside">
        <${Field} label=${texts.encoding} value=${encoding} onInput=${setEncoding}
          options=${Object.entries(texts.encodings).map(([value, label]) => ({ value, label }))} />
        ${type === "protobuf" && html`<${Field} label=${texts.message} value=${message_type} onInput=${setMessage}
          isRequired />`}
      </div>
      <button type="submit" disabled=${check.isRunning}>${texts.run}</button>
      <div role="status" class="outcome">
        <${ErrorNote} error=${check.error} />
        ${checked && (checked.fits
          ? html`<p><span class="badge good">${texts.fits}</span></p><h3>${texts.value}</h3>
            <pre>${JSON.stringify(checked.value, null, 2)}</pre>`
          : html`<p><span class="badge bad">${texts.unfit}</span> ${checked.fault}</p>`)}
      </div>
    </form>`;
};
