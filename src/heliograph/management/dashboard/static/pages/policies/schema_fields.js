// @ts-check
/** Which schema of the registry is meant, and which message of it. */
import { html } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import texts from "../../texts/en/policies.js";

/**
 * @typedef {Api.Coding | Api.ValidationCheckObject} Value
 * @param {{ type: string, value: Value, schemas: Api.SchemaObject[], fields: Record<string, string>, path: string,
 *   onInput: (value: Value) => void }} props
 */
export const SchemaFields = ({ type, value, schemas, fields, path, onInput }) => {
  const there = schemas.filter((one) => one.type === type).map(({ name }) => name);
  const chosen = value.schema ?? "";
  const names = chosen && !there.includes(chosen) ? [...there, chosen] : there;
  const options = [{ value: "", label: texts.chooseSchema }, ...names.map((name) => ({ value: name, label: name }))];
  return html`
    <div class="beside">
      <${Field} label=${texts.schema} value=${chosen} options=${options} error=${fields[`${path}.schema`]}
        onInput=${(/** @type {string} */ schema) => onInput({ ...value, schema })} isRequired />
      ${type === "protobuf" && html`<${Field} label=${texts.message} value=${value.message_type ?? ""}
        error=${fields[`${path}.message_type`]}
        onInput=${(/** @type {string} */ message_type) => onInput({ ...value, message_type })} isRequired />`}
    </div>`;
};
