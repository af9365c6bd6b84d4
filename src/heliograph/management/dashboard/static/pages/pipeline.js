// @ts-check
/**
 * The pipeline beside the node: its driver and queries, what they refused, what they would make of the last messages.
 */
import { html } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { count } from "../kernel/format.js";
import { useLive } from "../kernel/live.js";
import { useResource } from "../kernel/resource.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { Empty, Loaded, PageHead } from "../parts/notice.js";
import { Tabs } from "../parts/tabs.js";
import { DeadLetters } from "./pipeline/dead_letters.js";
import { LateRows } from "./pipeline/late_rows.js";
import { Plan } from "./pipeline/plan.js";
import { Queries } from "./pipeline/queries.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/pipeline.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function PipelinePage({ route }) {
  const first = useResource("pipeline", (signal) => api.get("heliograph/pipeline", {}, signal));
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${first.reload}>${everywhere.refresh}</button><//>
    <${Loaded} of=${first}>${(/** @type {Api.PipelineObject} */ data) => (data.enable
      ? html`<${Running} first=${data} query=${route.query} />`
      : html`<${Off} query=${route.query} />`)}<//>`;
}

/** @param {{ query: Record<string, string> }} props */
const Off = ({ query }) => html`
  <${Empty}><p>${texts.off}</p>${may("config:read")
    && html`<a href=${link("configuration")}>${texts.toConfiguration}</a>`}<//>
  <h2>${texts.tabs.dead_letters}</h2>
  <${DeadLetters} rule=${query.rule ?? ""} />`;

/** @param {{ first: Api.PipelineObject, query: Record<string, string> }} props */
const Running = ({ first, query }) => {
  const live = useLive("pipeline");
  /** @type {Api.PipelineEvent} */
  const now = live ?? { ...first, queries: first.queries.map(({ figures, ...one }) => ({ ...figures, ...one })) };
  const tabs = Object.entries(texts.tabs).filter(([id]) => id !== "plan" || may("pipeline:write"));
  const tab = tabs.some(([id]) => id === query.tab) ? query.tab : "queries";
  return html`
    <div class="card">
      <dl class="facts">
        <dt>${texts.driver}</dt><dd><span class=${`badge ${now.is_running ? "good" : "bad"}`}>
          ${now.is_running ? texts.running : texts.stopped}</span> ${now.note}</dd>
        <dt>${texts.file}</dt><dd class="code">${first.file}</dd>
        <dt>${texts.restarts}</dt><dd>${texts.times(count(now.restarts))}</dd>
        <dt>${texts.failures}</dt><dd>${texts.times(count(now.failures))}</dd>
      </dl>
    </div>
    <${Tabs} label=${texts.title} current=${tab} tabs=${tabs.map(([id, title]) =>
      ({ id, title, href: link("pipeline", { tab: id }) }))} />
    ${tab === "queries" && html`<${Queries} queries=${now.queries} />`}
    ${tab === "dead_letters" && html`<${DeadLetters} rule=${query.rule ?? ""} />`}
    ${tab === "late_rows" && html`<${LateRows} name=${query.rule ?? ""} />`}
    ${tab === "plan" && html`<${Plan} names=${now.queries.map(({ name }) => name)} />`}`;
};
