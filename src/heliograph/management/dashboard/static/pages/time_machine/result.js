// @ts-check
/** What a replay has found: figures, rows, failures and differences, and what was not done. */
import { html, useState } from "../../kernel/html.js";
import { count, cut, duration, rate, time } from "../../kernel/format.js";
import { link } from "../../kernel/router.js";
import { Numbers } from "../../parts/numbers.js";
import { Table } from "../../parts/table.js";
import { Start } from "./start.js";
import texts from "../../texts/en/time_machine.js";

const ROW_MAX = 600;
const DIFFERENCES = /** @type {const} */ (["added", "gone", "changed", "equal"]);
const KINDS = /** @type {const} */ (["added", "gone", "changed", "rows", "failures"]);
/** @typedef {(typeof KINDS)[number]} Kind */

/**
 * @typedef {Api.ReplayedMessageObject} Example
 * @typedef {import("../../parts/table.js").Column<Example>} Column
 * @typedef {Api.RuleReplayShown & { result: Api.RuleReplayResult }} Finished
 * @param {{ replay: Finished, onStarted: () => void }} props
 */
export const Result = ({ replay, onStarted }) => {
  const { result } = replay;
  const { comparison } = result;
  const kinds = KINDS.filter((kind) => comparison || kind === "rows" || kind === "failures");
  const [chosen, setChosen] = useState(kinds[0]);
  const found = { ...comparison, ...result };
  const shown = found[chosen] ?? [];
  const all = found[`${chosen}_count`] ?? 0;
  return html`
    <h2>${texts.result}</h2>
    ${!result.complete && html`<p class="note warn">${texts.partial}</p>`}
    <${Numbers} of=${numbersOf(result)} />
    ${comparison && html`<${Numbers} of=${differencesOf(comparison)} />`}
    <div class="tabs" role="group" aria-label=${texts.tabsLabel}>${kinds.map((kind) => html`
      <button key=${kind} type="button" aria-pressed=${kind === chosen}
        aria-current=${kind === chosen ? "true" : undefined} onClick=${() => setChosen(kind)}>
        ${texts.tabs[kind]} (${count(found[`${kind}_count`])})</button>`)}</div>
    <${Table} caption=${texts.tabs[chosen]} columns=${columnsOf(chosen)} rows=${shown}
      rowKey="id row_number"
      empty=${result.messages === 0 && !comparison?.compared_messages ? texts.nothing : texts.empty[chosen]} />
    ${shown.length > 0 && shown.length < all && html`
      <p class="quiet">${texts.shown(count(shown.length), count(all))}</p>`}
    <div class="cards">
      <${Remarks} title=${texts.notDone} lines=${result.not_done.map((one) => one.what)} />
      <${Remarks} title=${texts.notes} lines=${result.notes} />
    </div>
    <${Start} replay=${replay} onStarted=${onStarted} />`;
};

/** @param {{ title: string, lines: string[] }} props */
const Remarks = ({ title, lines }) => lines.length > 0 && html`
  <section class="card"><h3>${title}</h3><ul>${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul></section>`;

/** @param {Api.RuleReplayResult} result */
const numbersOf = (result) => [
  { name: texts.numbers.messages, value: count(result.messages), more: rate(result.messages_per_second) },
  { name: texts.numbers.rows, value: count(result.rows_count), more: rate(result.rows_per_second) },
  { name: texts.numbers.failures, value: count(result.failures_count), sign: result.failures_count ? "bad" : "" },
  { name: texts.numbers.nothing, value: count(result.no_result_count) },
  { name: texts.numbers.seconds, value: duration(result.seconds) },
];

/** @param {Api.RuleComparison} comparison */
const differencesOf = (comparison) => DIFFERENCES.map((name) =>
  ({ name: texts.numbers[name], value: count(comparison[`${name}_count`]) }));

/** @param {Kind} kind @returns {Column[]} */
const columnsOf = (kind) => [
  { key: "stored_at", title: texts.at, kind: "time", show: ({ stored_at: at }) => time(at / 1000) },
  { key: "topic", title: texts.topic, kind: "code", isHead: true, show: topicOf },
  { key: "clientid", title: texts.client, kind: "code", show: ({ clientid }) => whole(clientid, 40) },
  ...ownColumns(kind),
];

/** What only the rows of one kind have. @param {Kind} kind @returns {Column[]} */
const ownColumns = (kind) => {
  if (kind === "failures") {
    return [{ key: "error", title: texts.reason, show: ({ error }) => whole(error ?? "", ROW_MAX) }];
  }
  if (kind === "changed") return [rowColumn("before", texts.before), rowColumn("row", texts.after)];
  return [rowColumn("row", texts.row)];
};

/**
 * Its topic, which leads to the stored messages of its second; in another tab, since the replay ends with this page.
 * @param {Example} one
 */
const topicOf = ({ topic, stored_at: at }) => {
  const [from, until] = [at / 1000, at / 1000 + 1000].map((moment) => time(moment).replace(" ", "T"));
  return html`<a target="_blank" rel="noopener" title=${texts.storedThen}
    href=${link("history", { topic, span: "custom", from, until })}>${whole(topic, 80)}</a>`;
};

/** @param {"row" | "before"} key @param {string} title @returns {Column} */
const rowColumn = (key, title) => ({ key, title, kind: "code", show: (one) => whole(textOf(one[key]), ROW_MAX) });

/** @param {unknown} row One that is long is a text already. */
const textOf = (row) => (typeof row === "string" ? row : JSON.stringify(row));

/** A text, cut where it is long; the whole is its title. @param {string} text @param {number} most */
const whole = (text, most) => (text.length > most ? html`<span title=${text}>${cut(text, most)}</span>` : text);
