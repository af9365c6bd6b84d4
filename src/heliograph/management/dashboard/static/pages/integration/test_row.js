// @ts-check
/** A row, and what the templates of an action make of it. */
import { html } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { isRecord } from "../../kernel/own.js";
import { useAction } from "../../kernel/resource.js";
import { FactList } from "../../parts/facts.js";
import { Field } from "../../parts/field.js";
import { ErrorNote } from "../../parts/notice.js";
import { eventsOf, useLanguage } from "../../parts/rule_language.js";
import { filled, templatesIn } from "../../parts/templates.js";
import { contextOf } from "../rule/trial.js";
import { sqlOf } from "./attaching.js";
import rule from "../../texts/en/rule.js";
import words from "../../texts/en/new_action.js";

/** @typedef {import("../../parts/schema/kinds.js").Schema} Schema */

/**
 * @param {{ rules: Api.RuleObject[], rule: import("./attaching.js").Chosen, row: string,
 *   onRow: (row: string) => void, settings: Record<string, unknown>, properties: Record<string, Schema>,
 *   schema: Schema }} props
 *   `properties`: of the type, whose defaults may be templates.
 */
export const TestRow = ({ rules, rule: chosen, row, onRow, settings, properties, schema }) => {
  const language = useLanguage();
  const sql = sqlOf(rules, chosen);
  const sample = useAction(async () => {
    const [event] = eventsOf(language, sql);
    const output = await api.post("rule_test", { sql, context: contextOf(event, {}) });
    onRow(JSON.stringify(Array.isArray(output) ? output[0] : output, null, 2));
  });
  const found = templatesIn(settings, { type: "object", properties }, schema);
  const value = parsed(row);
  return html`
    <${Field} label=${words.row} rows=${8} value=${row} onInput=${onRow} hint=${words.rowHint}
      error=${row.trim() && !value ? words.noJson : ""} />
    ${sql && html`<p><button type="button" disabled=${sample.isRunning} onClick=${() => sample.run()}>
      ${words.sample}</button></p>`}
    ${sample.error?.status === 412 ? html`<p class="quiet">${rule.trial.noMatch}</p>`
      : html`<${ErrorNote} error=${sample.error} />`}
    <section aria-label=${words.sent} class="sent">
      <h3>${words.sent}</h3>
      ${found.length === 0 ? html`<p class="quiet">${words.noTemplate}</p>`
        : !value ? html`<p class="quiet">${words.needsRow}</p>`
        : html`<${FactList} rows=${found.map(([name, text]) =>
          [html`<code>${name}</code>`, html`<pre>${filled(text, value)}</pre>`])} />`}
    </section>`;
};

/** @param {string} text */
const parsed = (text) => {
  try {
    const value = JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
};
