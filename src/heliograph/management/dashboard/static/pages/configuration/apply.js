// @ts-check
/**
 * A change before it is made: what it does, what hides it, for how long; and what happened when somebody else was
 * first.
 */
import { html, submitting, useEffect } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { Dialog } from "../../parts/dialog.js";
import { ErrorNote, Loading, tell } from "../../parts/notice.js";
import { dotted, problemsOf } from "../../parts/schema_form.js";
import { PlanTable } from "./plan.js";
import { personOf } from "./revisions.js";
import { Terms, isRisky, termsOf, useTerms } from "./terms.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/configuration.js";
import trial from "../../texts/en/trial.js";

/** @typedef {import("../../parts/schema/values.js").Change} Change */

/** @param {Change[]} changes */
const valuesOf = (changes) => Object.fromEntries(changes.map(({ path: names, value }) =>
  [dotted(names), JSON.stringify(value ?? null)]));

/**
 * @param {{ changes: Change[], state: import("./page.js").State, reload: () => void, onErrors: (errors: Record<string,
 *   string>) => void,
 *   onApplied: () => void, onLeaveOut: (paths: string[]) => void, onClose: () => void }} props
 */
export const ApplyDialog = ({ changes, state, reload, onErrors, onApplied, onLeaveOut, onClose }) => {
  const values = valuesOf(changes);
  const terms = useTerms(isRisky(Object.keys(values)));
  const plan = useResource(JSON.stringify([values, state.revision]), (signal) =>
    api.post("heliograph/configuration/plan", { values, revision: state.revision }, { signal }));
  const change = useAction(async () => {
    const done = await api.post("heliograph/configuration/change",
      { values, revision: state.revision, ...termsOf(terms) });
    const failed = Object.entries(done.failed).map(([part, why]) => `${part}: ${why}`);
    tell(failed.length ? [texts.failedParts, ...failed].join(" ") : done.confirm_until ? trial.onTrial(done.revision)
      : trial.applied(done.revision));
  });
  const error = change.error ?? plan.error;
  useEffect(() => onErrors(error ? problemsOf(error).fields : {}), [error]);
  const hidden = (plan.data?.settings ?? []).filter((one) =>
    one.shadowed_by).map((one) => one.path);
  const submit = submitting(async () => {
    if (!await change.run()) return;
    onApplied();
    reload();
    onClose();
  });
  const isReady = plan.data && !plan.error && plan.data.settings.length > 0 && hidden.length === 0;
  return html`
    <${Dialog} title=${texts.plan} onClose=${onClose} isWide>
      <form onSubmit=${submit}>
        ${error?.code === "CONFLICT" ? html`<${Conflict} error=${error} state=${state}
          onReload=${() => { change.clear(); reload(); }} />`
          : html`<${ErrorNote} error=${error} again=${change.error ? undefined : plan.reload} />`}
        ${plan.data ? html`<${PlanTable} settings=${plan.data.settings} />`
          : !plan.error && html`<${Loading} />`}
        ${hidden.length > 0 && html`<div class="note warn"><p>${texts.hiddenTold}</p>
          <button type="button"
            onClick=${() => { onLeaveOut(hidden); if (hidden.length >= changes.length) onClose(); }}>
            ${texts.leaveOut}</button></div>`}
        ${isReady && html`<${Terms} terms=${terms} />`}
        <footer><button type="button" onClick=${onClose}>${everywhere.cancel}</button>
          <button type="submit" class="main" disabled=${!isReady || change.isRunning}>${texts.apply}</button></footer>
      </form>
    <//>`;
};

/**
 * Somebody else was first, or a change is on trial.
 * @param {{ error: import("../../kernel/resource.js").Failure, state: import("./page.js").State,
 *   onReload: () => void }} props
 */
const Conflict = ({ error, state, onReload }) => {
  const newest = useResource("newest", async (signal) => {
    const now = await api.get("heliograph/configuration/state", {}, signal);
    return now.revision === state.revision ? null
      : api.get(path("heliograph/configuration/revisions/{number}", now.revision),
      {}, signal);
  });
  return html`<div class="note warn" role="alert">
    <p><strong>${texts.conflict}</strong> ${newest.data ? texts.conflictBy(newest.data.number,
      personOf(newest.data.who), newest.data.comment) : error.message}</p>
    <button type="button" onClick=${onReload}>${texts.loadNow}</button></div>`;
};
