// @ts-check
/** What the queries would make of the last stored messages. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { cut } from "../../kernel/format.js";
import { useAction } from "../../kernel/resource.js";
import { Field } from "../../parts/field.js";
import { Empty, ErrorNote } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import pipeline from "../../texts/en/pipeline.js";

const texts = pipeline.plan;

/** @param {{ names: string[] }} props */
export const Plan = ({ names }) => {
  const [rule, setRule] = useState("");
  const [last, setLast] = useState("10");
  const [plans, setPlans] = useState(/** @type {Api.QueryPlan[]} */ ([]));
  const plan = useAction(async () => {
    setPlans([]);
    setPlans(await api.post("heliograph/pipeline/plan", undefined, { query: { rule, last } }));
  });
  const submit = submitting(() => plan.run());
  return html`
    <p>${texts.hint}</p>
    <form class="filters" onSubmit=${submit}>
      <${Field} label=${texts.rule} value=${rule} onInput=${setRule}
        options=${[{ value: "", label: texts.every }, ...names]} />
      <${Field} label=${texts.last} value=${last} onInput=${setLast} type="number" min="1" max="1000" isRequired />
      <button type="submit" class="main" disabled=${plan.isRunning}>${texts.run}</button>
    </form>
    <p role="status">${plan.isRunning && texts.running}</p>
    <${ErrorNote} error=${plan.error} />
    ${plans.map((one) => html`<${OneQuery} key=${one.name} plan=${one} />`)}`;
};

/** @param {{ plan: Api.QueryPlan }} props */
const OneQuery = ({ plan }) => html`
  <section class="card">
    <h2>${plan.name}</h2>
    <dl class="facts">
      <dt>${texts.engine}</dt><dd>${texts.engines[plan.engine] ?? plan.engine}</dd>
      <dt>${texts.from}</dt><dd class="code">${plan.source}</dd>
      <dt>${texts.to}</dt><dd class="code">${plan.target} (${plan.guarantee})</dd>
      <dt>${texts.messages}</dt><dd>${texts.counts(plan)}</dd>
      ${plan.reasons.length > 0 && html`<dt>${texts.reasons}</dt><dd>
        ${plan.reasons.map((reason) =>
        html`<p title=${reason}>${cut(reason.split("\n")[0], 300)}</p>`)}</dd>`}
    </dl>
    ${plan.rows.length === 0 ? html`<${Empty}>${texts.none}<//>` : html`
      <${Table} caption=${texts.rows(plan.name)} columns=${columnsOf(plan)}
        rows=${plan.rows.map((row, at) => ({ row, at }))}
        rowKey="at" />`}
  </section>`;

/**
 * @param {Api.QueryPlan} plan
 * @returns {import("../../parts/table.js").Column<{ row: Record<string, unknown> }>[]}
 */
const columnsOf = (plan) => plan.columns.map(([key, type]) => ({
  key, title: `${key} (${type})`, kind: "code", show: ({ row }) => cut(textOf(row[key]), 120),
}));

/** @param {unknown} value */
const textOf = (value) => (value === null || value === undefined ? "" : typeof value === "string" ? value
  : JSON.stringify(value));
