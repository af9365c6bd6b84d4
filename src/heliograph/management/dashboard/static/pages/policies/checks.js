// @ts-check
/** The checks of a validation. */
import { html } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import { SqlEditor } from "../../parts/sql_editor.js";
import { SchemaFields } from "./schema_fields.js";
import texts from "../../texts/en/policies.js";

const words = texts.check;

/** @param {import("./operations.js").PartProps<Api.ValidationObject>} props */
export const Checks = ({ draft, set, fields, schemas }) => {
  const checks = draft.checks;
  const put = (/** @type {number} */ at, /** @type {Api.ValidationCheckObject} */ check) =>
    set("checks")(checks.map((old, index) => (index === at ? check : old)));
  const { strategy, strategies } = texts.schema_validations;
  return html`
    <fieldset>
      <legend>${words.title}</legend>
      ${checks.length > 1 && html`<${Field} label=${strategy} value=${draft.strategy} onInput=${set("strategy")}
        options=${Object.entries(strategies).map(([value, label]) => ({ value, label }))} />`}
      ${fields.checks && html`<p class="wrong">${fields.checks}</p>`}
      ${checks.map((check, at) => html`
        <div class="rule-action" key=${at}>
          <div class="filters">
            <${Field} label=${texts.type(at + 1)} value=${check.type}
              error=${fields[`checks.${at + 1}`] ?? fields[`checks.${at + 1}.type`]}
              options=${Object.entries(words.kinds).map(([value, label]) => ({ value, label }))}
              onInput=${(/** @type {string} */ type) => put(at, type === "sql"
                ? { type, sql: "" } : { type, schema: check.schema ?? "" })} />
            <button type="button" aria-label=${texts.takeOut(words.name(at + 1))} disabled=${checks.length < 2}
              onClick=${() => set("checks")(checks.filter((_, index) => index !== at))}>✕</button>
          </div>
          ${check.type === "sql"
            ? html`<${SqlEditor} label=${words.sql} value=${check.sql ?? ""} hint=${words.sqlHint}
              error=${fields[`checks.${at + 1}.sql`]} isWhole=${false}
                onInput=${(/** @type {string} */ sql) => put(at, { ...check, sql })} isRequired />`
            : html`<${SchemaFields} type=${check.type} value=${check} schemas=${schemas} fields=${fields}
              path=${`checks.${at + 1}`} onInput=${(/** @type {typeof check} */ value) => put(at, value)} />`}
        </div>`)}
      <button type="button" onClick=${() => set("checks")([...checks, { type: "sql", sql: "" }])}>${words.add}</button>
    </fieldset>`;
};
