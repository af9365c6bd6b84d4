// @ts-check
/** One of a few, chosen by buttons in a row. */
import { html } from "../kernel/html.js";

/**
 * @param {{ label: string, options: { value: string, label: string }[], value: string, onChoose: (value: string) =>
 *   void }} props
 */
export const Choice = ({ label, options, value, onChoose }) => html`
  <div class="choice" role="group" aria-label=${label}>
    ${options.map((option) => html`<button key=${option.value} type="button" aria-pressed=${option.value === value}
      onClick=${() => onChoose(option.value)}>${option.label}</button>`)}
  </div>`;
