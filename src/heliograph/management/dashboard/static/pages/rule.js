// @ts-check
/** One rule: made, changed, tried; what evaluates it and what became of its messages. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { count, rate, time } from "../kernel/format.js";
import { useLive } from "../kernel/live.js";
import { useAction, useResource } from "../kernel/resource.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { ErrorNote, Loaded, PageHead } from "../parts/notice.js";
import { RuleForm } from "./rule/form.js";
import texts from "../texts/en/rule.js";

const NEW = { id: "", name: "", description: "", enable: true, sql: texts.sqlFirst, actions: [], metadata: {} };

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function RulePage({ route }) {
  const id = route.steps[1] ?? "";
  const rule = useResource(id, async (signal) => (id ? api.get(path("rules/{id}", id), {}, signal) : NEW));
  return html`
    <${PageHead} title=${id ? texts.title(id) : texts.newTitle}>
      ${id && may("rules:write") && html`<a class="button" href=${link("time_machine", { rule: id })}>
        ${texts.past}</a>`}
      <a class="button" href=${link("rules")}>${texts.all}</a>
    <//>
    ${id && html`<${Counts} id=${id} />`}
    <${Loaded} of=${rule}>${(/** @type {Api.RuleObject} */ data) => html`
      <${RuleForm} key=${id} rule=${data} isNew=${!id}
      onSaved=${rule.set} />`}<//>`;
}

/** @param {{ id: string }} props */
const Counts = ({ id }) => {
  const told = useLive("rules")?.rules?.[id];
  const reset = useAction(() => api.put(path("rules/{id}/metrics/reset", id)));
  return html`
    <dl class="numbers">${Object.entries(texts.counts.names).map(([name, title]) => html`
      <div class="number" key=${name}><dt>${title}</dt>
        <dd>${count(told?.[name])} ${told?.[`${name}_rate`] ? html`<small class="quiet">
          ${rate(told[`${name}_rate`])}</small>` : ""}</dd></div>`)}
    </dl>
    <${ErrorNote} error=${reset.error} />
    ${told?.last_error && html`<div class="note warn"><p>${texts.lastError}, ${time(told.last_error_at / 1000)}</p><pre>
      ${told.last_error}</pre></div>`}
    ${may("rules:write") && html`<p><button type="button" disabled=${reset.isRunning} onClick=${() => reset.run()}>
      ${texts.reset}</button></p>`}`;
};
