// @ts-check
/** What a transformation sets, and how it reads and writes payloads. */
import { html } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import { SchemaFields } from "./schema_fields.js";
import texts from "../../texts/en/policies.js";

const words = texts.operation;

/**
 * @template Draft
 * @typedef {{ draft: Draft, set: (name: keyof Draft) => (value: unknown) => void, fields: Record<string, string>,
 *   schemas: Api.SchemaObject[] }} PartProps
 */

/** @param {PartProps<Api.TransformationObject>} props */
export const Operations = (props) => {
  const { draft, set, fields } = props;
  const list = draft.operations;
  const put = (/** @type {number} */ at, /** @type {Partial<Api.TransformationStep>} */ change) =>
    set("operations")(list.map((old, index) => (index === at ? { ...old, ...change } : old)));
  return html`
    <${Coding} ...${props} name="payload_decoder" label=${texts.decoder} />
    <fieldset>
      <legend>${words.title}</legend>
      <p class="hint">${words.hint}</p>
      ${fields.operations && html`<p class="wrong">${fields.operations}</p>`}
      ${list.map(({ key, value }, at) => html`
        <div class="rule-action beside" key=${at}>
          <${Field} label=${words.key(at + 1)} value=${key} hint=${words.keyHint}
            error=${fields[`operations.${at + 1}.key`]} isRequired
            onInput=${(/** @type {string} */ text) => put(at, { key: text })} />
          <${Field} label=${words.value(at + 1)} value=${value} hint=${words.valueHint}
            error=${fields[`operations.${at + 1}.value`]} isRequired class="code"
            onInput=${(/** @type {string} */ text) => put(at, { value: text })} />
          <p><button type="button" aria-label=${texts.takeOut(words.name(at + 1))}
            onClick=${() => set("operations")(list.filter((_, index) => index !== at))}>✕</button></p>
        </div>`)}
      <button type="button" onClick=${() => set("operations")([...list, { key: "", value: "" }])}>${words.add}</button>
    </fieldset>
    <${Coding} ...${props} name="payload_encoder" label=${texts.encoder} />`;
};

/**
 * @param {PartProps<Api.TransformationObject> & { name: "payload_decoder" | "payload_encoder", label: string }} props
 */
const Coding = ({ draft, set, fields, schemas, name, label }) => {
  const coding = draft[name];
  const hasSchema = coding.type === "avro" || coding.type === "protobuf";
  return html`
    <${Field} label=${label} value=${coding.type} error=${fields[name] ?? fields[`${name}.type`]}
      onInput=${(/** @type {string} */ type) => set(name)({ type })}
      options=${Object.entries(texts.codings).map(([value, text]) => ({ value, label: text }))} />
    ${hasSchema && html`<${SchemaFields} type=${coding.type} value=${coding} schemas=${schemas} fields=${fields}
      path=${name} onInput=${set(name)} />`}`;
};
