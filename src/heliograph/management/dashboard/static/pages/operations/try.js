// @ts-check
/** Asks an operation, as the user who has logged in; what may change something asks before. */
import { html, submitting, useEffect, useRef, useState } from "../../kernel/html.js";
import { ask, step } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { ErrorNote } from "../../parts/notice.js";
import { BodyFields, begun, bodyOf } from "./bodies.js";
import texts from "../../texts/en/operations.js";

const MOST = 100_000;

/** @param {unknown} answer */
const shown = (answer) => {
  const text = answer === null ? texts.nothing : typeof answer === "string" ? answer : JSON.stringify(answer, null, 2);
  return text.length > MOST ? `${text.slice(0, MOST)}\n${texts.cut(text.length)}` : text;
};

/** @param {string} path @param {Record<string, string>} values */
const filled = (path, values) =>
  path.replace(/^\//, "").replace(/\{(\w+)\}/g, (_, name) => step(values[`path ${name}`] ?? ""));

/**
 * @typedef {import("../operations.js").Listed} Listed
 * @param {{ one: Listed, kinds: import("./bodies.js").Kind[] }} props
 */
export const TryOperation = ({ one, kinds }) => {
  const { path, method, about } = one;
  const parameters = (about.parameters ?? []).filter(({ in: place }) => place !== "header");
  const [values, setValues] = useState(/** @type {Record<string, string>} */ ({}));
  const [body, setBody] = useState(() => begun(kinds[0]));
  const [isAsking, setAsking] = useState(false);
  const [answer, setAnswer] = useState(/** @type {{ text: string, ms: number } | null} */ (null));
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const where = filled(path, values);
  const act = async () => {
    setAnswer(null);
    abort.current = new AbortController();
    const began = performance.now();
    const found = await asked(method, where, queryOf(parameters, values), body, abort.current.signal);
    setAnswer({ text: shown(found), ms: performance.now() - began });
  };
  const { run, isRunning, error } = useAction(act);
  const submit = submitting(() => {
    if (method === "get") run();
    else setAsking(true);
  });
  if (!may(about["x-scope"] ?? "")) return null;
  return html`
    <form onSubmit=${submit} class="try" aria-label=${texts.tryOf(`${method.toUpperCase()} ${path}`)}>
      <h3>${texts.try}</h3>
      <div class="filters">${parameters.map(({ in: place, name, required }) => html`
        <${Field} key=${`${place} ${name}`} label=${name} value=${values[`${place} ${name}`] ?? ""}
          isRequired=${required} autocomplete="off"
          onInput=${(/** @type {string} */ value) => setValues((old) =>
            ({ ...old, [`${place} ${name}`]: value }))} />`)}</div>
      <${BodyFields} kinds=${kinds} draft=${body} onInput=${setBody} />
      <div class="actions">
        <button type="submit" class=${method === "delete" ? "danger" : "main"} disabled=${isRunning}>
          ${texts.send(method.toUpperCase())}</button>
        ${isRunning && html`<button type="button" onClick=${() => abort.current.abort()}>${texts.stop}</button>`}
      </div>
      ${error?.name === "AbortError" ? html`<p class="quiet">${texts.stopped}</p>`
        : html`<${ErrorNote} error=${error} />`}
      ${error?.status ? html`<p class="quiet">${texts.status(error.status, error.code ?? "")}</p>` : ""}
      ${answer && html`<p class="quiet" role="status">${texts.answered(Math.round(answer.ms))}</p>
        <pre tabindex="0" aria-label=${texts.answer}>${answer.text}</pre>`}
    </form>
    ${isAsking && html`<${ConfirmDialog} title=${texts.askTitle} text=${texts.ask(`${method.toUpperCase()} /${where}`)}
      action=${texts.send(method.toUpperCase())}
      act=${async () => { run(); }} onClose=${() => setAsking(false)} />`}`;
};

/** @param {import("./schemas.js").Parameter[]} parameters @param {Record<string, string>} values */
const queryOf = (parameters, values) => Object.fromEntries(parameters.filter(({ in: place }) => place === "query")
  .map(({ name }) => [name, values[`query ${name}`]]));

/**
 * @param {string} method
 * @param {string} where
 * @param {Record<string, unknown>} query
 * @param {import("./bodies.js").Draft} draft
 * @param {AbortSignal} signal
 */
const asked = (method, where, query, draft, signal) =>
  ask(method.toUpperCase(), where, { query, body: method === "get" ? undefined : bodyOf(draft), signal });
