// @ts-check
/** The settings of a rule, with what the node says of its SQL and a place to try it beside. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useSeen } from "../../parts/changed.js";
import { CheckField, Field } from "../../parts/field.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import { problemsOf } from "../../parts/schema_form.js";
import { SqlEditor } from "../../parts/sql_editor.js";
import { ActionsEditor } from "./actions.js";
import { EngineCard } from "./engine.js";
import { RuleTrial } from "./trial.js";
import texts from "../../texts/en/rule.js";

const PLACE = ["rule_engine", "rules", "*"];

/** What a person has set of it. @param {Api.RuleObject} rule */
const settingsOf = ({ from, created_at, last_modified_at, ...settings }) => settings;

/** @param {{ rule: Api.RuleObject, isNew: boolean, onSaved: (rule: Api.RuleObject) => void }} props */
export const RuleForm = ({ rule, isNew, onSaved }) => {
  const [draft, setDraft] = useState(rule);
  const [explained,
    setExplained] = useState(/** @type {import("../../parts/rule_language.js").Explained | null} */ (null));
  const set = (/** @type {string} */ name) => (/** @type {unknown} */ value) =>
    setDraft((old) => ({ ...old, [name]: value }));
  const seen = useSeen(settingsOf(rule));
  const save = useAction(async () => {
    const { id, ...settings } = draft;
    if (!isNew) seen.check(settingsOf(await api.get(path("rules/{id}", id))));
    const saved = isNew ? await api.post("rules", { ...settings, ...(id.trim() ? { id: id.trim() } : {}) })
      : await api.put(path("rules/{id}", id), settings);
    tell(isNew ? texts.made(saved.id) : texts.saved(saved.id));
    if (isNew) return navigate(link("rule", saved.id));
    seen.saved(settingsOf(saved));
    onSaved(saved);
  });
  const { fields, rest } = problemsOf(save.error, PLACE);
  const submit = submitting(() => save.run());
  const isReadOnly = !may("rules:write");
  return html`
    <div class="rule">
      <form class="card" onSubmit=${submit}>
        <fieldset class="bare" disabled=${isReadOnly}>
          ${save.error && !(save.error.status === 400 && !rest)
            && html`<${ErrorNote} error=${rest ? { ...save.error, message: rest } : save.error} />`}
          ${isNew && html`<${Field} label=${texts.id} value=${draft.id} onInput=${set("id")} hint=${texts.idHint}
            error=${fields.id} autocomplete="off" />`}
          <${Field} label=${texts.name} value=${draft.name} onInput=${set("name")} error=${fields.name} />
          <${Field} label=${texts.description} value=${draft.description} onInput=${set("description")}
            error=${fields.description} />
          <${SqlEditor} label=${texts.sql} value=${draft.sql} onInput=${set("sql")} hint=${texts.sqlHint}
            error=${fields.sql}
            onExplained=${setExplained} isRequired />
          <${ActionsEditor} actions=${draft.actions} onInput=${set("actions")} error=${fields.actions} />
          <${CheckField} label=${texts.enable} value=${draft.enable} onInput=${set("enable")} />
          ${!isReadOnly && html`<button type="submit" class="main" disabled=${save.isRunning}>
            ${isNew ? texts.make : texts.save}</button>`}
        </fieldset>
      </form>
      <div>
        ${!isReadOnly && html`<${RuleTrial} sql=${draft.sql} />`}
        ${!isReadOnly && html`<${EngineCard} explained=${explained} actions=${draft.actions} />`}
      </div>
    </div>`;
};
