// @ts-check
/** The columns of a rule, which a press puts into the template that is being written. */
import { html, useRef, useState } from "../../kernel/html.js";
import { eventsOf, useExplained, useLanguage } from "../../parts/rule_language.js";
import { sqlOf } from "./attaching.js";
import words from "../../texts/en/new_action.js";

const TEXTS = "textarea, input:not([type]), input[type=text]";

/**
 * The columns that a rule gives; those of its event where the node does not say.
 * @param {string} sql
 */
const useColumns = (sql) => {
  const language = useLanguage();
  const { explained } = useExplained(sql);
  if (!sql || !explained || explained.problem) return [];
  const names = explained.parts.filter(({ type }) => type !== "").map(({ name }) => name);
  return names.length ? names : eventsOf(language, sql).flatMap(({ columns }) => columns);
};

/**
 * @param {{ rules: Api.RuleObject[], rule: import("./attaching.js").Chosen, children?: unknown }} props
 *   The children are the fields.
 */
export const Columns = ({ rules, rule, children }) => {
  const columns = useColumns(sqlOf(rules, rule));
  const last = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [name, setName] = useState("");
  const see = (/** @type {{ target: HTMLInputElement }} */ { target }) => {
    if (!target.matches(TEXTS)) return;
    last.current = target;
    setName(target.labels?.[0]?.textContent ?? "");
  };
  const put = (/** @type {string} */ column) => {
    last.current?.focus();
    document.execCommand("insertText", false, `\${${column}}`); // it keeps the browser's "undo"
  };
  return html`
    <section aria-label=${words.columns}>
      <p class="quiet">${columns.length ? words.pick(name) : words.noColumns}</p>
      <p class="columns">${[...columns, ...(columns.length ? ["."] : [])].map((column) => html`
        <button type="button" key=${column} disabled=${!name} onClick=${() => put(column)}
          aria-label=${words.put(column === "." ? words.wholeRow : `\${${column}}`)}>
          ${column === "." ? words.wholeRow : column}</button>`)}</p>
    </section>
    <div onfocusin=${see}>${children}</div>`;
};
