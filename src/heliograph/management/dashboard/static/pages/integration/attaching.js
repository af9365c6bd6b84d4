// @ts-check
/** The rule that a new action gets its rows from: one that is there, a new one, or none yet. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { SqlEditor } from "../../parts/sql_editor.js";
import rule from "../../texts/en/rule.js";
import words from "../../texts/en/new_action.js";

const LIMIT = 1000;

/**
 * `kind`: `none`, `new`, or `old`; `id` of an old one, or of a new one if it is given.
 * @typedef {{ kind: string, id: string, sql: string }} Chosen
 */

/** @type {Chosen} */
export const NEW_RULE = { kind: "none", id: "", sql: rule.sqlFirst };

/** All rules that there are. @returns {Api.RuleObject[]} */
export const useRules = () => useResource("rules", async (signal) => (may("rules:read")
  ? (await api.get("rules", { page: 1, limit: LIMIT }, signal)).data : [])).data ?? [];

/** The SQL of the rule; empty for none. @param {Api.RuleObject[]} rules @param {Chosen} chosen */
export const sqlOf = (rules, { kind, id, sql }) => (kind === "new" ? sql
  : kind === "old" ? rules.find((one) => one.id === id)?.sql ?? "" : "");

/** Have the rule name an action. @param {Chosen} chosen @param {string} action */
export const attach = async ({ kind, id, sql }, action) => {
  if (kind === "new") await api.post("rules", { sql, actions: [action], ...(id.trim() ? { id: id.trim() } : {}) });
  if (kind !== "old") return;
  const now = await api.get(path("rules/{id}", id));
  await api.put(path("rules/{id}", id), { ...now, actions: [...now.actions, action] });
};

/**
 * @param {{ rules: Api.RuleObject[], value: Chosen, onInput: (chosen: Chosen) => void,
 *   errors: Record<string, string> }} props
 */
export const RuleChoice = ({ rules, value, onInput, errors }) => {
  if (!may("rules:write")) return html`<p class="quiet">${words.noRules}</p>`;
  const options = [{ value: "none", label: words.later }, { value: "new", label: words.newRule },
    ...rules.map(({ id }) => ({ value: `old ${id}`, label: words.rule(id) }))];
  const choose = (/** @type {string} */ one) => onInput(one.startsWith("old ")
    ? { ...value, kind: "old", id: one.slice(4) } : { ...value, kind: one, id: "" });
  return html`
    <${Field} label=${words.rows} value=${value.kind === "old" ? `old ${value.id}` : value.kind} options=${options}
      hint=${words.rowsHint} onInput=${choose} />
    ${value.kind === "new" && html`
      <${Field} label=${rule.id} value=${value.id} hint=${rule.idHint} error=${errors.id ?? errors.name}
        autocomplete="off" onInput=${(/** @type {string} */ id) => onInput({ ...value, id })} />
      <${SqlEditor} label=${rule.sql} value=${value.sql} hint=${rule.sqlHint} error=${errors.sql} isRequired
        onInput=${(/** @type {string} */ sql) => onInput({ ...value, sql })} />`}`;
};
