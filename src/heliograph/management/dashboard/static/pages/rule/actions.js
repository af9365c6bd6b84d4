// @ts-check
/** What a rule does with its rows: built-in functions, and actions by their ids. */
import { html, useId } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { recordOf } from "../../kernel/own.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { RepublishFields } from "./republish.js";
import everywhere from "../../texts/en/rule.js";

const texts = everywhere.actions;
const FUNCTIONS = /** @type {const} */ (["republish", "console", "pipeline"]);

/**
 * The kind of an action as the choice has it.
 * @typedef {Api.RuleObject["actions"][number]} Action
 * @param {Action} action
 */
export const kindOf = (action) => (typeof action === "string" ? action : String(action.function));

/** @param {string} kind @returns {Action} */
const actionOf = (kind) => (kind === "republish" ? { function: kind,
  args: { topic: "", payload: "", qos: 0, retain: false } }
  : kind.includes(":") ? kind : { function: kind });

/** @param {{ actions: Action[], onInput: (actions: Action[]) => void, error?: string }} props */
export const ActionsEditor = ({ actions, onInput, error }) => {
  const id = useId();
  const there = useResource("actions", (signal) => (may("actions:read") ? api.get("actions_summary", {}, signal)
    : Promise.resolve([])));
  const ids = (there.data ?? []).map(({ type, name }) => `${type}:${name}`);
  const put = (/** @type {number} */ at, /** @type {Action} */ action) =>
    onInput(actions.map((old, index) => (index === at ? action : old)));
  return html`
    <fieldset aria-describedby=${error ? id : undefined}>
      <legend>${texts.title}</legend>
      ${error && html`<p class="wrong" id=${id}>${error}</p>`}
      ${actions.length === 0 && html`<p class="quiet">${texts.none}</p>`}
      ${actions.map((action, at) => html`
        <div class="rule-action" key=${at}>
          <div class="filters">
            <${Field} label=${texts.kind(at + 1)} value=${kindOf(action)}
              options=${choices(ids, kindOf(action), !there.isLoading)}
              onInput=${(/** @type {string} */ kind) => put(at, actionOf(kind))} />
            <button type="button" aria-label=${texts.remove(at + 1)}
              onClick=${() => onInput(actions.filter((_, index) => index !== at))}>✕</button>
          </div>
          ${typeof action !== "string" && kindOf(action) === "republish" && html`
            <${RepublishFields} args=${recordOf(action.args)} onInput=${(/** @type {Record<string, unknown>} */ args) =>
              put(at, { ...action, args })} />`}
        </div>`)}
      <button type="button" onClick=${() => onInput([...actions, actionOf("republish")])}>${texts.add}</button>
    </fieldset>`;
};

/** @param {string[]} ids @param {string} chosen @param {boolean} isKnown Whether all ids have come. */
const choices = (ids, chosen, isKnown) => {
  const built = FUNCTIONS.map((name) => ({ value: String(name), label: texts.kinds[name] }));
  const named = ids.map((id) => ({ value: id, label: texts.named(id) }));
  const isThere = [...built, ...named].some(({ value }) => value === chosen);
  return isThere ? [...built, ...named] : [...built, ...named,
    { value: chosen, label: isKnown ? texts.unknown(chosen) : texts.named(chosen) }];
};
