// @ts-check
/** What became of the rows of an action. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { count } from "../../kernel/format.js";
import { useAction } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ErrorNote } from "../../parts/notice.js";
import texts from "../../texts/en/integration.js";

/** @param {{ id: string, rules: string[], metrics?: Record<string, number> }} props `metrics`: as the stream tells. */
export const ActionMetrics = ({ id, rules, metrics }) => {
  const reset = useAction(() => api.put(path("actions/{id}/metrics/reset", id)));
  return html`
    <section aria-label=${texts.metrics}>
      <dl class="numbers">${Object.entries(texts.counts).map(([name, title]) => html`
        <div class="number" key=${name}><dt>${title}</dt><dd>${count(metrics?.[name])}</dd></div>`)}</dl>
      <${ErrorNote} error=${reset.error} />
      <p class="actions">
        ${may("actions:write") && html`<button type="button" disabled=${reset.isRunning} onClick=${() => reset.run()}>
          ${texts.reset}</button>`}
        ${(metrics?.failed ?? 0) > 0 && may("pipeline:read") && html`<a class="button"
          href=${link("pipeline", { tab: "dead_letters", rule: id })}>${texts.letters}</a>`}
        ${rules.length > 0 && html`<span>${texts.uses.actions}: ${rules.map((rule) =>
          html`<a key=${rule} href=${link("rule", rule)}>${rule}</a> `)}</span>`}
      </p>
    </section>`;
};
