// @ts-check
/** A new action in three steps: where its rows go, what of them, and a row to see it with; then its rule. */
import { html, submitting, useEffect, useRef, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { recordOf } from "../../kernel/own.js";
import { useAction } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import { namedProblems } from "../../parts/schema_form.js";
import { attach, NEW_RULE, RuleChoice, useRules } from "./attaching.js";
import { ConnectorField, propertiesOf, sentOf, SettingsFields, typesOf } from "./fields.js";
import { idOf, pageOf } from "./list.js";
import { Columns } from "./columns.js";
import { Settings } from "./settings.js";
import { TestRow } from "./test_row.js";
import texts from "../../texts/en/integration.js";
import words from "../../texts/en/new_action.js";

const FIRST = ["", "type", "name", "connector"];

/** @param {import("./settings.js").Found & { first: string }} props */
export const NewAction = ({ schema, connectors: before, first }) => {
  const types = typesOf(schema, "actions");
  const [step, setStep] = useState(1);
  const [type, setType] = useState(types.includes(first) ? first : types[0]);
  const [name, setName] = useState("");
  const [connectors, setConnectors] = useState(before);
  const [draft, setDraft] = useState(/** @type {Record<string, unknown>} */ ({}));
  const [rule, setRule] = useState(NEW_RULE);
  const [row, setRow] = useState("");
  const [made, setMade] = useState(/** @type {Api.IntegrationObject | null} */ (null));
  const rules = useRules();
  const settings = sentOf(schema, "actions", type, draft);
  const save = useAction(async () => {
    const action = made ?? await api.post("actions", { type, name, ...settings });
    setMade(action); // where the rule is refused, it is there already
    await attach(rule, idOf(action));
    tell(texts.saved(idOf(action)));
    navigate(link(pageOf("actions"), idOf(action)));
  });
  const [isTested, setTested] = useState(false);
  const test = useAction(async () => {
    setTested(false);
    await api.post("actions_probe", { type, name: name || "test", ...settings });
    setTested(true);
  });
  const shown = save.error ?? test.error;
  const { fields, rest } = namedProblems(shown, ["actions", type], name);
  const ruleProblems = namedProblems(made ? save.error : null, ["rule_engine", "rules"], rule.id);
  const left = made ? ruleProblems.rest : rest;
  /** Goes to the step of the first field that the API names. @param {() => Promise<boolean>} run */
  const tried = async (run) => { if (!await run()) setStep(0); };
  const wrong = Object.keys(fields);
  const now = step || (made || wrong.length === 0 ? 3 : wrong.some((one) => FIRST.includes(one)) ? 1 : 2);
  const change = (/** @type {unknown} */ value) => {
    setDraft(recordOf(value));
    setTested(false);
  };
  const other = (/** @type {string} */ chosen) => {
    setType(chosen);
    change({});
  };
  const next = submitting(() => {
    if (now < 3) return setStep(now + 1);
    test.clear();
    return tried(save.run);
  });
  const title = useRef(/** @type {HTMLElement | null} */ (null));
  const shownStep = useRef(now);
  useEffect(() => {
    if (shownStep.current !== now) title.current?.focus();
    shownStep.current = now;
  }, [now]);
  const isThere = connectors.some((one) => one.type === type);
  return html`
    <${Steps} now=${now} onGo=${setStep} canGo=${name !== "" && !!draft.connector && !made} />
    ${shown && (left || shown.status !== 400) && html`<${ErrorNote}
      error=${left ? { ...shown, message: left } : shown} />`}
    ${made && html`<p class="note warn" role="status">${words.isMade(idOf(made))}</p>`}
    <form class="card" onSubmit=${next}>
      <h2 tabindex="-1" ref=${title}>${words.titles[now - 1]}</h2>
      ${now === 1 && html`
        <div class="beside">
          <${Field} label=${texts.type} value=${type} options=${types} onInput=${other} />
          <${Field} label=${texts.name} value=${name} onInput=${setName} hint=${texts.nameHint} error=${fields.name}
            isRequired autocomplete="off" />
        </div>
        <${ConnectorField} type=${type} value=${draft.connector ?? ""} connectors=${connectors}
          error=${fields.connector} isReadOnly=${false}
          onInput=${(/** @type {string} */ connector) => change({ ...draft, connector })} />`}
      ${now === 2 && html`
        <${RuleChoice} rules=${rules} value=${rule} onInput=${setRule} errors=${{}} />
        <${Columns} rules=${rules} rule=${rule}>
          <${SettingsFields} kind="actions" schema=${schema} type=${type} value=${settings} onInput=${change}
            errors=${fields} /><//>`}
      ${now === 3 && html`
        <${TestRow} rules=${rules} rule=${rule} row=${row} onRow=${setRow} settings=${settings}
          properties=${propertiesOf(schema, "actions", type)} schema=${schema} />
        <p class="actions"><button type="button" disabled=${test.isRunning}
          onClick=${() => { save.clear(); tried(test.run); }}>${texts.test}</button>
          <span role="status">${test.isRunning ? texts.testing : isTested
            && html`<span class="badge good">${texts.tested}</span>`}</span></p>
        <${RuleChoice} rules=${rules} value=${rule} onInput=${setRule} errors=${ruleProblems.fields} />`}
      <div class="actions">
        ${now > 1 && !made && html`<button type="button" onClick=${() => setStep(now - 1)}>${words.back}</button>`}
        <button type="submit" class="main" disabled=${save.isRunning}>
          ${now < 3 ? words.next : texts.actions.make}</button>
      </div>
    </form>
    ${now === 1 && may("connectors:write") && html`
      <details key=${type} open=${!isThere || undefined}><summary>${words.newConnector(type)}</summary>
        <${Settings} kind="connectors" schema=${schema} row=${null} connectors=${[]} first=${type} isOfType
          onSaved=${(/** @type {Api.IntegrationObject} */ one) => {
            setConnectors([...connectors, one]);
            change({ ...draft, connector: one.name });
          }} /></details>`}`;
};

/** @param {{ now: number, canGo: boolean, onGo: (step: number) => void }} props */
const Steps = ({ now, canGo, onGo }) => html`
  <ol class="steps" aria-label=${words.steps}>${words.titles.map((title, at) => html`
    <li key=${title}><button type="button" aria-current=${at + 1 === now ? "step" : undefined}
      disabled=${at + 1 > now && !canGo} onClick=${() => onGo(at + 1)}>${at + 1}. ${title}</button></li>`)}</ol>`;
