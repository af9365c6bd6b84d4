// @ts-check
/** A card in which something is tried: on what is typed, or on a stored message. */
import { html, useState } from "../kernel/html.js";
import { may } from "../kernel/session.js";
import texts from "../texts/en/trial_card.js";
import { StoredMessages } from "./stored_messages.js";

/**
 * @param {{ title: string, hint: string, typed: string, form: unknown, filter: string, isBusy: boolean,
 *   takesBytes?: boolean, onUse: (message: import("./stored_messages.js").SeenMessage) => unknown,
 *   children?: unknown }} props
 *   `typed`: what the tab of the form is called; the children are what came of it; the others as in `StoredMessages`.
 */
export const TrialCard = ({ title, hint, typed, form, children, ...stored }) => {
  const [isStored, setStored] = useState(false);
  const tab = (/** @type {string} */ label, /** @type {boolean} */ isOfStored) => html`
    <button type="button" aria-pressed=${isStored === isOfStored}
      aria-current=${isStored === isOfStored ? "true" : undefined} onClick=${() => setStored(isOfStored)}>
      ${label}</button>`;
  return html`
    <section class="card">
      <h2>${title}</h2>
      <p class="quiet">${hint}</p>
      ${may("messages:read") && html`<div class="tabs">${tab(typed, false)}${tab(texts.stored, true)}</div>`}
      ${isStored ? html`<${StoredMessages} ...${stored} />` : form}
      <div role="status" class="outcome">${children}</div>
    </section>`;
};
