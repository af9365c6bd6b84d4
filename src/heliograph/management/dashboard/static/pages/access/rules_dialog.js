// @ts-check
/** The rules of a user name, a client id or all clients: each with what it allows or denies. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { ActDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import everywhere from "../../texts/en/everywhere.js";
import shared from "../../texts/en/access.js";

const texts = shared.rules;
/** @type {"authorization/sources/built_in_database/rules"} */
export const RULES = "authorization/sources/built_in_database/rules";
/** @type {Api.BuiltInRule} */
const NEW = { permission: "allow", action: "publish", topic: "${username}/#", qos: [0, 1, 2], retain: "all" };
const QOS = [[0, 1, 2], [0], [1], [2], [0, 1], [0, 2], [1, 2]].map((levels) => levels.join(", "));

/**
 * @typedef {Api.BuiltInRule} Rule
 * @typedef {import("../../kernel/resource.js").Failure} Failure
 * @typedef {{ name: string, rules: Rule[] }} Owner
 */

/**
 * Where the rules of a name are.
 * @param {"users" | "clients" | "all"} kind
 * @param {string} name
 * @returns {`${typeof RULES}/${"all" | "users/{username}" | "clients/{clientid}"}`}
 */
export const placeOf = (kind, name) => {
  if (kind === "all") return `${RULES}/all`;
  return kind === "users" ? path(`${RULES}/users/{username}`, name) : path(`${RULES}/clients/{clientid}`, name);
};

/** @param {"users" | "clients" | "all"} kind @param {string} name @param {boolean} isNew @param {Rule[]} rules */
const save = (kind, name, isNew, rules) => {
  if (kind === "all") return api.post(`${RULES}/all`, { rules });
  if (!isNew) {
    return kind === "users" ? api.put(path(`${RULES}/users/{username}`, name), { rules })
      : api.put(path(`${RULES}/clients/{clientid}`, name), { rules });
  }
  return api.post(`${RULES}/${kind}`, [{ [kind === "users" ? "username" : "clientid"]: name, rules }]);
};

/**
 * @param {{ kind: "users" | "clients" | "all", owner?: Owner, onClose: (isDone: boolean) =>
 *   void }} props
 */
export const RulesDialog = ({ kind, owner, onClose }) => {
  const [name, setName] = useState(owner?.name ?? "");
  const [rules, setRules] = useState(owner?.rules ?? [NEW]);
  const isExisting = (/** @type {Failure | null} */ error) => error?.code === "ALREADY_EXISTS";
  return html`
    <${ActDialog} title=${owner ? texts.title(owner.name) : texts.add[kind]} action=${everywhere.save}
      act=${() => save(kind, name, !owner, rules)} onClose=${onClose} isWide
      isShown=${(/** @type {Failure} */ error) => !isExisting(error)}>${(/** @type {Failure | null} */ error) => html`
      <p class="quiet">${texts.intro}</p>
      ${!owner && kind !== "all" && html`<${Field} label=${texts.name[kind]} value=${name} onInput=${setName}
        isRequired error=${isExisting(error) ? texts.exists(name) : ""} autocomplete="off" />`}
      <${RuleRows} rules=${rules} setRules=${setRules} />`}<//>`;
};

/** @param {{ rules: Rule[], setRules: (rules: Rule[]) => void }} props */
const RuleRows = ({ rules, setRules }) => {
  const put = (/** @type {number} */ at, /** @type {Partial<Rule>} */ more) =>
    setRules(rules.map((rule, index) => (index === at ? { ...rule, ...more } : rule)));
  const remove = (/** @type {number} */ at) => setRules(rules.filter((_, index) => index !== at));
  const up = (/** @type {number} */ at) => setRules([...rules.slice(0, at - 1), rules[at], rules[at - 1],
    ...rules.slice(at + 1)]);
  return html`<ol class="rule-rows">${rules.map((rule, at) => html`<li key=${at} aria-label=${texts.rule(at + 1)}>
      <${Field} label=${texts.permission} options=${["allow", "deny"]} value=${rule.permission}
        onInput=${(/** @type {string} */ permission) => put(at, { permission })} />
      <${Field} label=${texts.action} options=${["publish", "subscribe", "all"]} value=${rule.action}
        onInput=${(/** @type {string} */ action) => put(at, { action })} />
      <${Field} label=${texts.topic} value=${rule.topic} onInput=${(/** @type {string} */ topic) => put(at, { topic })}
        isRequired spellcheck="false" />
      <${Field} label=${texts.qos} options=${QOS} value=${(rule.qos ?? NEW.qos).join(", ")}
        onInput=${(/** @type {string} */ qos) => put(at, { qos: qos.split(", ").map(Number) })} />
      <${Field} label=${texts.retain} options=${["all", "true", "false"]} value=${String(rule.retain ?? "all")}
        onInput=${(/** @type {string} */ retain) => put(at, { retain: retain === "all" ? retain
          : retain === "true" })} />
      <span class="actions"><button type="button" aria-label=${shared.upNamed(texts.rule(at + 1))} disabled=${at === 0}
        onClick=${() => up(at)}>↑</button>
        <button type="button" class="danger" aria-label=${shared.removeNamed(texts.rule(at + 1))}
          onClick=${() => remove(at)}>✕</button></span>
    </li>`)}</ol>
    <button type="button" onClick=${() => setRules([...rules, NEW])}>${texts.addRule}</button>`;
};
