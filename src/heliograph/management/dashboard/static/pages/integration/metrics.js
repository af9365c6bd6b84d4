// @ts-check
/** What became of the rows of an action, or of the messages of a source. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { count } from "../../kernel/format.js";
import { useAction } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ErrorNote } from "../../parts/notice.js";
import texts from "../../texts/en/integration.js";

const COUNTED = ["success", "failed", "retried", "queuing", "rate"];

/**
 * @param {{ kind: "actions" | "sources", id: string, rules: string[], metrics?: Record<string, number> }} props
 *   `metrics`: as the stream tells.
 */
export const Metrics = ({ kind, id, rules, metrics }) => {
  const reset = useAction(() => api.put(path(`${kind}/{id}/metrics/reset`, id)));
  const names = kind === "actions" ? COUNTED : ["received", "dropped", "rate"];
  return html`
    <section aria-label=${texts.metrics[kind]}>
      <dl class="numbers">${names.map((name) => html`
        <div class="number" key=${name}><dt>${texts.counts[name]}</dt><dd>${count(metrics?.[name])}</dd></div>`)}</dl>
      <${ErrorNote} error=${reset.error} />
      <p class="actions">
        ${may(`${kind}:write`) && html`<button type="button" disabled=${reset.isRunning} onClick=${() => reset.run()}>
          ${texts.reset}</button>`}
        ${(metrics?.failed ?? 0) > 0 && may("pipeline:read") && html`<a class="button"
          href=${link("pipeline", { tab: "dead_letters", rule: id })}>${texts.letters}</a>`}
        ${rules.length > 0 && html`<span>${texts.uses[kind]}: ${rules.map((rule) =>
          html`<a key=${rule} href=${link("rule", rule)}>${rule}</a> `)}</span>`}
      </p>
    </section>`;
};
