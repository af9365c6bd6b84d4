// @ts-check
/** One rule: made, changed, tried; what evaluates it and what became of its messages. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { useResource } from "../kernel/resource.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Counts } from "./rule/counts.js";
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
