// @ts-check
/** A few numbers that matter, large. */
import { html } from "../kernel/html.js";

/**
 * @typedef {{ name: string, value: string, more?: string, sign?: string, href?: string }} ShownNumber
 * @param {{ of: ShownNumber[] }} props
 */
export const Numbers = ({ of }) => html`
  <dl class="numbers dense">${of.map(({ name, value, more, sign, href }) => html`
    <div class=${`number ${sign ?? ""}`} key=${name}>
      <dt>${href ? html`<a href=${href}>${name}</a>` : name}</dt>
      <dd>${value} ${more && html`<small>${more}</small>`}</dd>
    </div>`)}</dl>`;
