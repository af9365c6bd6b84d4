// @ts-check
/** For how long a change is made, and why. */
import { html, useState } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import texts from "../../texts/en/configuration.js";

const SECONDS = "60";
// What may lock the user out.
const RISKY = new Set([
  "listeners", "authentication", "authentication_settings", "authorization", "dashboard", "management", "zones",
  "api_key", "address_limits", "banned",
]);

/** @param {string[]} paths */
export const isRisky = (paths) => paths.some((path) => RISKY.has(path.split(".")[0]));

/** @param {boolean} isTrial */
export const useTerms = (isTrial) => {
  const [terms, setTerms] = useState({ isTrial, seconds: SECONDS, comment: "" });
  return { ...terms, set: (/** @type {Partial<{ isTrial: boolean, seconds: string, comment: string }>} */ more) =>
    setTerms({ ...terms, ...more }) };
};

/** @param {ReturnType<typeof useTerms>} terms */
export const termsOf = ({ isTrial, seconds, comment }) => ({ confirm_s: isTrial ? Number(seconds) : 0, comment });

/** @param {{ terms: ReturnType<typeof useTerms> }} props */
export const Terms = ({ terms }) => html`
  <fieldset class="terms"><legend>${texts.howLong}</legend>
    <label><input type="radio" name="how-long" checked=${!terms.isTrial}
      onChange=${() => terms.set({ isTrial: false })} /> ${texts.forGood}</label>
    <label><input type="radio" name="how-long" checked=${terms.isTrial}
      onChange=${() => terms.set({ isTrial: true })} /> ${texts.trial}</label>
    ${terms.isTrial && html`<${Field} label=${texts.seconds} hint=${texts.secondsHint} type="number" min="10"
      max="86400" isRequired
      value=${terms.seconds} onInput=${(/** @type {string} */ seconds) => terms.set({ seconds })} />`}
  </fieldset>
  <${Field} label=${texts.comment} hint=${texts.commentHint} value=${terms.comment}
    onInput=${(/** @type {string} */ comment) => terms.set({ comment })} />`;
