// @ts-check
/** What became of the messages of a rule, as the stream tells it. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { time } from "../../kernel/format.js";
import { useLive } from "../../kernel/live.js";
import { own } from "../../kernel/own.js";
import { useAction } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ErrorNote } from "../../parts/notice.js";
import { counted } from "../../parts/numbers.js";
import texts from "../../texts/en/rule.js";

const COUNTED = /** @type {const} */ (["matched", "passed", "failed_no_result", "failed_exception", "actions_success",
  "actions_failed"]);
const BAD = ["failed_exception", "actions_failed"];

/**
 * The same of each rule of a list.
 * @param {Record<string, Api.LiveRule | undefined>} live
 * @returns {import("../../parts/table.js").Column<Api.RuleObject>[]}
 */
export const columnsOfCounts = (live) => COUNTED.map((name) => ({
  key: name, title: texts.counts[name], kind: "number", show: ({ id }) =>
    counted(live[id]?.[name], live[id]?.[`${name}_rate`], BAD.includes(name)),
}));

/** @param {{ id: string }} props */
export const Counts = ({ id }) => {
  const live = own(useLive("rules")?.rules, id);
  const reset = useAction(() => api.put(path("rules/{id}/metrics/reset", id)));
  return html`
    <dl class="numbers">${COUNTED.map((name) => html`
      <div class="number" key=${name}><dt>${texts.counts[name]}</dt>
        <dd>${counted(live?.[name], live?.[`${name}_rate`])}</dd></div>`)}</dl>
    <${ErrorNote} error=${reset.error} />
    ${live?.last_error && html`<div class="note warn"><p>${texts.lastError}, ${time(live.last_error_at / 1000)}</p><pre>
      ${live.last_error}</pre></div>`}
    ${may("rules:write") && html`<p><button type="button" disabled=${reset.isRunning} onClick=${() => reset.run()}>
      ${texts.reset}</button></p>`}`;
};
