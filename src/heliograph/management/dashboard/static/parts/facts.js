// @ts-check
/** What is known of one thing: names and values. */
import { html } from "../kernel/html.js";

/** @param {{ rows: [string, unknown][] }} props */
export const FactList = ({ rows }) => html`
  <dl class="facts">${rows.map(([name, value]) => html`
    <dt key=${`${name}-t`}>${name}</dt><dd key=${name}>${value}</dd>`)}</dl>`;

/** The same as a card. @param {{ title: string, rows: [string, unknown][] }} props */
export const Facts = ({ title, rows }) => html`
  <section class="card">
    <h2>${title}</h2>
    <${FactList} rows=${rows} />
  </section>`;
