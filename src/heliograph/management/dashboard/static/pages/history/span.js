// @ts-check
/** Stretches of time: as the address has them, and as the API takes them. */
import { html } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import texts from "../../texts/en/history.js";

const SPANS = ["900", "3600", "86400", "yesterday", "604800", "all", "custom"].map((value) =>
  ({ value, label: texts.spans[value] }));

/** The stretch that an address names, or the last hour. @param {string} [value] */
export const spanOf = (value) => (SPANS.find((one) => one.value === value)?.value ?? "3600");

/** @param {string} local Of a field for date and time. */
const moment = (local) => (local && !Number.isNaN(Date.parse(local)) ? new Date(local).toISOString() : undefined);

const midnight = (/** @type {number} */ daysAgo) => {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  day.setDate(day.getDate() - daysAgo);
  return day.toISOString();
};

/**
 * @typedef {{ span: string, from: string, until: string }} Asked
 * @param {Asked} asked
 * @returns {{ start?: string, end?: string }}
 */
export const timesOf = ({ span, from, until }) => {
  if (span === "all") return {};
  if (span === "custom") return { start: moment(from), end: moment(until) };
  if (span === "yesterday") return { start: midnight(1), end: midnight(0) };
  return { start: new Date(Date.now() - Number(span) * 1000).toISOString() };
};

/** @param {{ asked: Asked, onChange: (more: Partial<Asked>) => void }} props */
export const SpanFields = ({ asked, onChange }) => html`
  <${Field} label=${texts.span} value=${asked.span} options=${SPANS}
    onInput=${(/** @type {string} */ span) => onChange({ span })} />
  ${asked.span === "custom" && html`
    <${Field} label=${texts.from} type="datetime-local" step="1" value=${asked.from}
      onInput=${(/** @type {string} */ from) => onChange({ from })} />
    <${Field} label=${texts.until} type="datetime-local" step="1" value=${asked.until}
      onInput=${(/** @type {string} */ until) => onChange({ until })} />`}`;
