// @ts-check
/** One schema: made, changed, a payload checked against it. */
import { html, submitting, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { useAction, useResource } from "../kernel/resource.js";
import { link, navigate } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { useSeen } from "../parts/changed.js";
import { Field } from "../parts/field.js";
import { ErrorNote, Loaded, PageHead, tell } from "../parts/notice.js";
import { loadSchema, problemsOf, schemaAt, SchemaForm } from "../parts/schema_form.js";
import { PayloadCheck } from "./schema/check.js";
import texts from "../texts/en/schemas.js";

const NEW = { name: "", type: "json", source: "", description: "" };
const PLACE = ["schema_registry", "schemas", "*"];

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function SchemaPage({ route }) {
  const name = route.steps[1] ?? "";
  const found = useResource(name, async (signal) => {
    const [row, root] = await Promise.all([name ? api.get(path("schema_registry/{name}", name), {}, signal) : NEW,
      loadSchema()]);
    return { row, root };
  });
  return html`
    <${PageHead} title=${name ? texts.one(name) : texts.add}><a class="button" href=${link("schemas")}>
      ${texts.all}</a><//>
    <${Loaded} of=${found}>${(/** @type {Pick<SettingsProps, "row" | "root">} */ { row, root }) => html`
      <div class="rule">
        <${Settings} key=${name} row=${row} root=${root} isNew=${!name} onSaved=${found.reload} />
        ${name && may("schemas:write") && html`<${PayloadCheck} name=${name} type=${row.type} />`}
      </div>`}<//>`;
}

/**
 * A schema as it is written; `source` is the text of one that is no external service, which has `parameters`.
 * @typedef {Api.SchemaObject & { source?: string, parameters?: unknown }} Written
 * @typedef {{ row: Written, root: import("../parts/schema/kinds.js").Schema, isNew: boolean, onSaved: () => void }}
 *   SettingsProps
 * @param {SettingsProps} props
 */
const Settings = ({ row, root, isNew, onSaved }) => {
  const [draft, setDraft] = useState(row);
  const set = (/** @type {string} */ name) => (/** @type {unknown} */ value) =>
    setDraft((old) => ({ ...old, [name]: value }));
  const isService = draft.type === "external_http";
  const seen = useSeen(row);
  const save = useAction(async () => {
    const { source, parameters, ...others } = draft;
    const body = isService ? { ...others, parameters: parameters ?? {} } : { ...others, source };
    const where = path("schema_registry/{name}", row.name);
    if (!isNew) seen.check(await api.get(where));
    seen.saved(await (isNew ? api.post("schema_registry", body) : api.put(where, body)));
    tell(texts.saved(draft.name));
    if (isNew) navigate(link("schema", draft.name));
    else onSaved();
  });
  const { fields, rest } = problemsOf(save.error, PLACE);
  const ofWhole = fields[""]; // what names the schema and none of its settings
  const error = save.error && (rest || ofWhole)
    ? { ...save.error, message: [rest, ofWhole].filter(Boolean).join("\n") } : save.error;
  const submit = submitting(() => save.run());
  return html`
    <form class="card" onSubmit=${submit}>
      <fieldset class="bare" disabled=${!may("schemas:write")}>
        ${save.error && (rest || ofWhole || save.error.status !== 400) && html`<${ErrorNote} error=${error} />`}
        <div class="beside">
          ${isNew && html`<${Field} label=${texts.name} value=${draft.name} onInput=${set("name")}
            hint=${texts.nameHint} isRequired autocomplete="off" />`}
          <${Field} label=${texts.type} value=${draft.type} onInput=${set("type")} error=${fields.type}
            options=${Object.entries(texts.types).map(([value, label]) => ({ value, label }))} />
        </div>
        <${Field} label=${texts.description} value=${draft.description} onInput=${set("description")}
          error=${fields.description} />
        ${isService ? html`<h3>${texts.parameters}</h3><${SchemaForm} schema=${schemaAt(root, [...PLACE, "parameters"])}
          root=${root} value=${draft.parameters ?? {}}
            onInput=${set("parameters")} errors=${below(fields, "parameters.")} isReadOnly=${!may("schemas:write")} />`
          : html`<${Field} label=${texts.source} value=${draft.source ?? ""} onInput=${set("source")} rows=${16}
            error=${fields.source} isRequired />`}
        ${may("schemas:write") && html`<button type="submit" class="main" disabled=${save.isRunning}>
          ${isNew ? texts.make : texts.save}</button>`}
      </fieldset>
    </form>`;
};

/** @param {Record<string, string>} fields @param {string} prefix */
const below = (fields, prefix) => Object.fromEntries(Object.entries(fields).filter(([name]) => name.startsWith(prefix))
  .map(([name, text]) => [name.slice(prefix.length), text]));
