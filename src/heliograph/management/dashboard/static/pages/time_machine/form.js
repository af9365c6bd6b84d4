// @ts-check
/** What is replayed: a rule or SQL, over which stretch of time, with which engine, beside which other rule. */
import { html, submitting, useEffect, useId, useRef, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { Choice } from "../../parts/choice.js";
import { Field } from "../../parts/field.js";
import { SqlEditor } from "../../parts/sql_editor.js";
import texts from "../../texts/en/time_machine.js";
import { stretchOf } from "./stretch.js";

const RULES_MAX = 1000;

/** @param {AbortSignal} signal */
const namesOf = async (signal) => {
  const { data } = await api.get("rules", { limit: RULES_MAX }, signal);
  const pipeline = may("pipeline:read") ? await api.get("heliograph/pipeline", {}, signal) : { queries: [] };
  const ofPipeline = pipeline.queries.map((one) => `pipeline:${one.name}`);
  return [...data.map((rule) => rule.id), ...ofPipeline];
};

/** The text of a rule of the broker; empty for others. @param {string} name @param {AbortSignal} signal */
const textOf = async (name, signal) => {
  if (!name || name.startsWith("pipeline:")) return "";
  return api.get(path("rules/{id}", name), {}, signal).then(({ sql }) => sql, () => "");
};

/** @param {Record<string, string>} labels */
const optionsOf = (labels) => Object.entries(labels).map(([value, label]) => ({ value, label }));

const FIRST = { sql: "", compare: "none", other: "", stretch: "hour", from: "", to: "", engine: "broker" };

/**
 * @param {{ rule: string, isRunning: boolean, problem: import("../../kernel/resource.js").Failure | null,
 *   onRun: (body: object) => void }} props
 */
export const ReplayForm = ({ rule, isRunning, problem, onRun }) => {
  const list = useId();
  const [draft, setDraft] = useState({ ...FIRST, rule });
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    setDraft((/** @type {typeof draft} */ old) => ({ ...old, [name]: value }));
  const names = useResource("names", namesOf);
  const isKnown = names.data?.includes(draft.rule) ?? false;
  const own = useResource(isKnown ? draft.rule : "", (signal) => textOf(isKnown ? draft.rule : "", signal));
  const filled = useRef("");
  useEffect(() => {
    if (!isKnown || own.data === undefined) return;
    const [before, text] = [filled.current, own.data];
    filled.current = text;
    // What the user has typed stays.
    setDraft((/** @type {typeof draft} */ old) => (old.sql === before ? { ...old, sql: text } : old));
  }, [isKnown, draft.rule, own.data]);
  const wrong = (/** @type {string} */ name) => (problem?.field === name ? problem.message : "");
  const submit = submitting(() => onRun(bodyOf(draft, own.data ?? "")));
  return html`
    <form class="card" onSubmit=${submit}>
      <${Field} label=${texts.rule} value=${draft.rule} onInput=${put("rule")} hint=${texts.ruleHint}
        error=${wrong("rule")}
        list=${list} autocomplete="off" />
      <datalist id=${list}>${(names.data ?? []).map((/** @type {string} */ name) => html`
        <option key=${name} value=${name}></option>`)}</datalist>
      <${SqlEditor} label=${texts.sql} value=${draft.sql} onInput=${put("sql")} hint=${texts.sqlHint}
        error=${wrong("sql")} />
      <div class="beside">
        <${Field} label=${texts.compare} value=${draft.compare} onInput=${put("compare")}
          options=${optionsOf(texts.compares)} error=${draft.compare === "other" ? "" : wrong("compare")} />
        ${draft.compare === "other" && html`
          <${Field} label=${texts.other} value=${draft.other} onInput=${put("other")} error=${wrong("compare")}
            list=${list} autocomplete="off" isRequired />`}
      </div>
      <div class="replay-choices">
        <div><p>${texts.stretch}</p><${Choice} label=${texts.stretch} options=${optionsOf(texts.stretches)}
          value=${draft.stretch} onChoose=${put("stretch")} /></div>
        <div><p>${texts.engine}</p><${Choice} label=${texts.engine} options=${optionsOf(texts.engines)}
          value=${draft.engine} onChoose=${put("engine")} /></div>
      </div>
      ${draft.stretch === "own" && html`<div class="beside">
        <${Field} label=${texts.from} type="datetime-local" step="1" value=${draft.from} onInput=${put("from")}
          error=${wrong("from")} isRequired />
        <${Field} label=${texts.to} type="datetime-local" step="1" value=${draft.to} onInput=${put("to")}
          hint=${texts.toHint} error=${wrong("to")} />
      </div>`}
      ${draft.stretch !== "own" && (wrong("from") || wrong("to")) && html`<p class="wrong">${problem?.message}</p>`}
      ${wrong("engine") && html`<p class="wrong">${problem?.message}</p>`}
      <p class="actions"><button type="submit" class="main" disabled=${isRunning}>${texts.run}</button>
        <span class="quiet">${draft.engine === "spark" && texts.engineHint.spark}</span></p>
    </form>`;
};

/** What the API is asked. @param {typeof FIRST & { rule: string }} draft @param {string} own The rule's own text. */
const bodyOf = (draft, own) => {
  const rule = draft.rule.trim();
  const isOwn = rule && draft.sql === own;
  return {
    rule,
    sql: isOwn || !draft.sql.trim() ? "" : draft.sql,
    compare: draft.compare === "now" ? rule : draft.compare === "other" ? draft.other.trim() : "",
    engine: draft.engine,
    ...stretchOf(draft.stretch, draft.from, draft.to),
  };
};
