// @ts-check
/** One operation: what it needs, takes and answers; its parts are made when it is opened. */
import { html, useState } from "../../kernel/html.js";
import { may } from "../../kernel/session.js";
import { Table } from "../../parts/table.js";
import { kindsOf } from "./bodies.js";
import { resolved, typeText } from "./schemas.js";
import { TryOperation } from "./try.js";
import texts from "../../texts/en/operations.js";

/** @import { Answer, ApiDocument, Parameter, Schema } from "./schemas.js" */

/** @type {import("../../parts/table.js").Column<Parameter>[]} */
const COLUMNS = [
  { key: "name", title: texts.name, kind: "code", isHead: true },
  { key: "in", title: texts.place },
  { key: "schema", title: texts.type, show: (one) => typeText(one.schema) },
  { key: "required", title: texts.required, show: (one) => (one.required ? texts.yes : "") },
  { key: "description", title: texts.description, show: (one) => one.description ?? one.schema.description ?? "" },
];

/** @param {{ one: import("../operations.js").Listed, document: ApiDocument }} props */
export const Operation = ({ one, document }) => {
  const [isOpen, setOpen] = useState(false);
  const { path, method, about } = one;
  return html`
    <details
      onToggle=${(/** @type {{ currentTarget: HTMLDetailsElement }} */ event) => setOpen(event.currentTarget.open)}>
      <summary><span class=${`verb ${method}`}>${method.toUpperCase()}</span> <code>${path}</code> <span class="quiet">
        ${about.summary}</span></summary>
      ${isOpen && html`<${Details} one=${one} document=${document} />`}
    </details>`;
};

/** @param {{ one: import("../operations.js").Listed, document: ApiDocument }} props */
const Details = ({ one, document }) => {
  const { about } = one;
  const scope = about["x-scope"] ?? "";
  const parameters = about.parameters ?? [];
  const kinds = kindsOf(about, document);
  return html`
    <div class="operation">
      ${about.description && html`<p>${about.description}</p>`}
      <p><span class="badge">${scope ? texts.scope(scope) : texts.open}</span>
        ${scope && !may(scope) && html` <small>${texts.notYours}</small>`}</p>
      ${parameters.length > 0 && html`<${Table} caption=${texts.parameters} columns=${COLUMNS} rows=${parameters}
        rowKey="in name" />`}
      ${kinds.map(({ type, schema }) => html`<${SchemaShown} key=${type} title=${texts.body(type)}
        schema=${schema} />`)}
      <h3>${texts.answers}</h3>
      ${Object.entries(about.responses).map(([code, answer]) =>
        html`<${AnswerShown} key=${code} code=${code} answer=${answer} document=${document} />`)}
      <${TryOperation} one=${one} kinds=${kinds} />
    </div>`;
};

/** @param {{ code: string, answer: Answer, document: ApiDocument }} props */
const AnswerShown = ({ code, answer, document }) => {
  const schema = answer.content?.["application/json"]?.schema;
  const hasSchema = schema && Object.keys(schema).length > 0;
  return hasSchema ? html`<${SchemaShown} title=${`${code}: ${answer.description}`}
    schema=${resolved(schema, document)} />`
    : html`<p class="quiet">${code}: ${answer.description}</p>`;
};

/** @param {{ title: string, schema: Schema }} props */
const SchemaShown = ({ title, schema }) => html`
  <details><summary>${title}</summary><pre tabindex="0" aria-label=${title}>
    ${JSON.stringify(schema, null, 2)}</pre></details>`;
