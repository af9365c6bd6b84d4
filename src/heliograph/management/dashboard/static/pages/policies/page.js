// @ts-check
/** One validation, or one transformation: its form, its counts, and a place to try it. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useLive } from "../../kernel/live.js";
import { own } from "../../kernel/own.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useSeen } from "../../parts/changed.js";
import { CheckField, Field } from "../../parts/field.js";
import { ErrorNote, Loaded, PageHead, tell } from "../../parts/notice.js";
import { counted } from "../../parts/numbers.js";
import { problemsOf } from "../../parts/schema_form.js";
import { Checks } from "./checks.js";
import { DryRun } from "./dry_run.js";
import { COUNTED, KINDS, placeOf, rowsOf } from "./kinds.js";
import { Operations } from "./operations.js";
import texts from "../../texts/en/policies.js";

const LEVELS = ["error", "warning", "notice", "info", "debug", "none"];
const NEW = { name: "", description: "", topics: [], enable: true, log_failure: { level: "info" } };

/** @param {{ kind: import("./kinds.js").Kind, name: string }} props */
export default function PolicyPage({ kind, name }) {
  const words = texts[kind];
  const found = useResource(`${kind} ${name}`, async (signal) => {
    const [row, schemas] = await Promise.all([
      name ? api.get(placeOf(kind, name), {}, signal) : { ...NEW, ...KINDS[kind].empty },
      may("schemas:read") ? api.get("schema_registry", {}, signal) : [],
    ]);
    return { row, schemas };
  });
  return html`
    <${PageHead} title=${name ? words.one(name) : words.add}><a class="button" href=${link(kind)}>${words.all}</a><//>
    ${name && html`<${Counts} kind=${kind} name=${name} />`}
    <${Loaded} of=${found}>${(/** @type {{ row: Policy, schemas: Api.SchemaObject[] }} */ { row, schemas }) => html`
      <${PolicyForm} key=${name} kind=${kind} row=${row} isNew=${!name} schemas=${schemas} />`}<//>`;
}

/** @param {{ kind: import("./kinds.js").Kind, name: string }} props */
const Counts = ({ kind, name }) => {
  const live = own(rowsOf(useLive(kind)), name);
  const reset = useAction(() => api.post(path(`${KINDS[kind].path}/metrics/reset`, name)));
  return html`
    <dl class="numbers">${COUNTED.map((one) => html`
      <div class="number" key=${one}><dt>${texts[one]}</dt>
        <dd>${counted(live?.[one], live?.[`${one}_rate`])}</dd></div>`)}</dl>
    <${ErrorNote} error=${reset.error} />
    ${may("policies:write") && html`<p><button type="button" disabled=${reset.isRunning} onClick=${() => reset.run()}>
      ${texts.reset}</button></p>`}`;
};

/**
 * @typedef {import("./kinds.js").Policy} Policy
 * @param {{ kind: import("./kinds.js").Kind, row: Policy, isNew: boolean, schemas: Api.SchemaObject[] }} props
 */
const PolicyForm = ({ kind, row, isNew, schemas }) => {
  const words = texts[kind];
  const [draft, setDraft] = useState(row);
  const [topics, setTopics] = useState(row.topics.join("\n"));
  const whole = { ...draft, topics: topics.split("\n").map((one) => one.trim()).filter(Boolean) };
  const set = (/** @type {string} */ name) => (/** @type {unknown} */ value) =>
    setDraft((old) => ({ ...old, [name]: value }));
  const seen = useSeen(row);
  const [tried, setTried] = useState(/** @type {Record<string, string> | null} */ (null)); // what the last trial found
  const save = useAction(async () => {
    setTried(null);
    if (!isNew) seen.check(await api.get(placeOf(kind, draft.name)));
    seen.saved(await (isNew ? api.post(kind, whole) : api.put(kind, whole)));
    tell(texts.saved(draft.name));
    if (isNew) navigate(link(KINDS[kind].page, draft.name));
  });
  const { fields, rest } = problemsOf(save.error, KINDS[kind].place);
  const submit = submitting(() => save.run());
  const isReadOnly = !may("policies:write");
  const parts = { draft, set, fields: tried ?? fields, schemas };
  return html`
    <div class="rule">
      <form class="card" onSubmit=${submit}>
        <fieldset class="bare" disabled=${isReadOnly}>
          ${save.error && (rest || save.error.status !== 400)
            && html`<${ErrorNote} error=${rest ? { ...save.error, message: rest } : save.error} />`}
          ${isNew && html`<${Field} label=${texts.name} value=${draft.name} onInput=${set("name")}
            hint=${texts.nameHint} error=${fields.name} isRequired autocomplete="off" />`}
          <${Field} label=${texts.description} value=${draft.description} onInput=${set("description")}
            error=${fields.description} />
          <${Field} label=${texts.topics} value=${topics} onInput=${setTopics}
            rows=${Math.max(2, topics.split("\n").length)} hint=${texts.topicsHint} error=${parts.fields.topics}
              isRequired />
          ${kind === "schema_validations" ? html`<${Checks} ...${parts} />` : html`<${Operations} ...${parts} />`}
          <div class="beside">
            <${Field} label=${texts.failure} value=${draft.failure_action} onInput=${set("failure_action")}
              options=${Object.entries(words.actions).map(([value, label]) => ({ value, label }))} />
            <${Field} label=${texts.log} value=${draft.log_failure.level} options=${LEVELS}
              onInput=${(/** @type {string} */ level) => set("log_failure")({ level })} />
          </div>
          <${CheckField} label=${texts.enable} value=${draft.enable} onInput=${set("enable")} />
          ${!isReadOnly && html`<button type="submit" class="main" disabled=${save.isRunning}>
            ${isNew ? words.make : texts.save}</button>`}
        </fieldset>
      </form>
      ${!isReadOnly && html`<${DryRun} kind=${kind} policy=${whole} onFaults=${setTried} />`}
    </div>`;
};
