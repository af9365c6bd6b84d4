// @ts-check
/** Counts with how much they grow, and a few numbers that matter, large. */
import { html } from "../kernel/html.js";
import { count, rate } from "../kernel/format.js";

/**
 * A count, and how much it grows in a second.
 * @param {number | undefined} now
 * @param {number | null | undefined} pace
 * @param {boolean} [isBad] Whether it should be 0.
 */
export const counted = (now, pace, isBad = false) => html`
  <span class=${now && isBad ? "badge bad" : ""}>${count(now)}</span>
  ${pace ? html` <small class="quiet">${rate(pace)}</small>` : ""}`;

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
