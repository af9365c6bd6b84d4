// @ts-check
/** What a validation that was tried says of a message: all of it, and each of its checks. */
import { html } from "../../kernel/html.js";
import { own } from "../../kernel/own.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/policies.js";

const texts = everywhere.verdict;

/** @param {{ output: Api.ValidationVerdict }} props */
export const Verdict = ({ output }) => {
  const { passes, outcome, checks } = output;
  const isAsked = outcome !== "not_checked";
  const [sign, said] = isAsked ? (passes ? ["good", texts.passes] : ["bad", texts.fails]) : ["warn", texts.notAsked];
  const text = texts.outcomes[outcome === "goes_on" && !passes ? "ignored" : outcome];
  return html`
    <h3>${texts.title}</h3>
    <p><span class=${`badge ${sign}`}>${said}</span> ${text}</p>
    <${Table} caption=${texts.caption} columns=${COLUMNS} rowKey="number"
      rows=${checks.map((check, at) => ({ ...check, number: at + 1 }))} />`;
};

/** @type {import("../../parts/table.js").Column<Api.CheckVerdict & { number: number }>[]} */
const COLUMNS = [
  { key: "number", title: texts.check, isHead: true, show: ({ number, type }) =>
    `${number}: ${own(everywhere.check.kinds, type)}` },
  { key: "passes", title: texts.result, show: ({ passes }) => html`<span class=${`badge ${passes ? "good" : "bad"}`}>
    ${passes ? texts.passed : texts.failed}</span>` },
  { key: "fault", title: texts.why },
];
