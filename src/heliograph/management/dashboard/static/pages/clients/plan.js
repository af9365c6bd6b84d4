// @ts-check
/** Many clients kicked or banned: first which and how many, then just those. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { Dialog } from "../../parts/dialog.js";
import { CheckField, Field } from "../../parts/field.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import common from "../../texts/en/everywhere.js";
import texts from "../../texts/en/client_plan.js";
import { ClientLink } from "./columns.js";

/**
 * @param {{ verb: "kick" | "ban", query: Record<string, unknown>, onClose: (isDone: boolean) => void }} props
 *   `query` has the API's parameters: filters, or `clientid` with the ids of those that were chosen.
 */
export const PlanDialog = ({ verb, query, onClose }) => {
  const plan = useResource(JSON.stringify(query), (signal) =>
    api.post("heliograph/clients/plan", undefined, { query, signal }));
  return html`
    <${Dialog} title=${verb === "kick" ? texts.kickTitle : texts.banTitle} onClose=${() => onClose(false)}>
      <${Loaded} of=${plan}>${(/** @type {Api.PlanShown} */ found) => found.count === 0
        ? html`<p>${texts.nobody}</p>`
        : html`<${PlanForm} verb=${verb} plan=${found} onClose=${onClose} />`}<//>
    <//>`;
};

/** @param {{ verb: "kick" | "ban", plan: Api.PlanShown, onClose: (isDone: boolean) => void }} props */
const PlanForm = ({ verb, plan, onClose }) => {
  const [ban, setBan] = useState({ reason: "", lasts: "", kick: true });
  const { run, isRunning, error } = useAction(() => (verb === "kick" ? kick(plan) : banAll(plan, ban)));
  const submit = submitting(async () => {
    if (await run()) onClose(true);
  });
  return html`
    <form onSubmit=${submit}>
      <p>${verb === "kick" ? texts.kickPlan(plan.count) : texts.banPlan(plan.count)}</p>
      ${plan.more && html`<p class="note warn">${texts.more(plan.count)}</p>`}
      <h3>${texts.first}</h3>
      <ul class="ids">${plan.first.map((one) => html`
        <li key=${one.clientid} class="code"><${ClientLink} id=${one.clientid} /></li>`)}</ul>
      <p class="quiet">${texts.still}</p>
      ${verb === "ban" && html`<${BanFields} ban=${ban} setBan=${setBan} />`}
      <${ErrorNote} error=${error} />
      <footer>
        <button type="button" onClick=${() => onClose(false)}>${common.cancel}</button>
        <button type="submit" class="danger" disabled=${isRunning}>${texts[verb](plan.count)}</button>
      </footer>
    </form>`;
};

/** @typedef {{ reason: string, lasts: string, kick: boolean }} BanWords */

/** @param {{ ban: BanWords, setBan: (ban: BanWords) => void }} props */
const BanFields = ({ ban, setBan }) => html`
  <${Field} label=${texts.reason} hint=${texts.reasonHint} value=${ban.reason} maxlength="1000"
    onInput=${(/** @type {string} */ reason) => setBan({ ...ban, reason })} />
  <${Field} label=${texts.until} value=${ban.lasts} options=${texts.untils}
    onInput=${(/** @type {string} */ lasts) => setBan({ ...ban, lasts })} />
  <${CheckField} label=${texts.alsoKick} value=${ban.kick}
    onInput=${(/** @type {boolean} */ kick) => setBan({ ...ban, kick })} />`;

/** @param {Api.PlanShown} plan */
const kick = async ({ plan }) => tell(texts.kicked(await api.post("heliograph/clients/kick", { plan })));

/** @param {Api.PlanShown} plan @param {BanWords} ban */
const banAll = async ({ plan }, { reason, lasts, kick }) => {
  const until = lasts ? { until: Math.floor(Date.now() / 1000) + Number(lasts) } : {};
  tell(texts.banned(await api.post("heliograph/clients/ban", { plan, reason, kick, ...until })));
};
