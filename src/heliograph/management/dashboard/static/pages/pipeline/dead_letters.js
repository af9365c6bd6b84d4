// @ts-check
/** Dead letters: counted by rule and cause, shown, replayed. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { count, cut, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { CheckField } from "../../parts/field.js";
import { Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import pipeline from "../../texts/en/pipeline.js";

const texts = pipeline.dead;
const LIMIT = 100;

/** @param {{ rule: string }} props */
export const DeadLetters = ({ rule }) => (rule ? html`<${OfRule} key=${rule} rule=${rule} />` : html`<${Counts} />`);

const Counts = () => {
  const counts = useResource("letters", (signal) => api.get("heliograph/pipeline/dead_letters", {}, signal));
  const [replayed, setReplayed] = useState("");
  const columns = columnsOf(may("pipeline:write") ? setReplayed : null);
  return html`
    <p>${texts.hint}</p>
    <${Loaded} of=${counts}>${(/** @type {Api.LetterCountObject[]} */ rows) => html`
      <${Table} caption=${texts.caption} columns=${columns} rows=${rows}
        rowKey="rule cause"
        empty=${texts.none} isBusy=${counts.isLoading} />`}<//>
    <button type="button" disabled=${counts.isLoading} onClick=${counts.reload}>${everywhere.refresh}</button>
    ${replayed && html`<${ReplayDialog} rule=${replayed} onClose=${(/** @type {boolean} */ isDone) => {
      setReplayed("");
      if (isDone) counts.reload();
    }} />`}`;
};

/** @param {Api.LetterCountObject} row */
const nameOf = ({ action, rule }) => action ?? rule;

/** @param {{ rule: string, onClose: (isDone: boolean) => void }} props */
const ReplayDialog = ({ rule, onClose }) => html`
  <${ConfirmDialog} title=${texts.replayTitle} text=${texts.replayText(rule)} action=${texts.replayOf(rule)}
    onClose=${onClose}
    act=${async () =>
      tell(texts.done(await api.post(path("heliograph/pipeline/dead_letters/{rule}/replay", rule))))} />`;

/**
 * @param {((rule: string) => void) | null} replay
 * @returns {import("../../parts/table.js").Column<Api.LetterCountObject>[]}
 */
const columnsOf = (replay) => [
  { key: "rule", title: texts.rule, kind: "code", isHead: true, show: nameOf },
  { key: "cause", title: texts.cause, show: ({ cause }) => texts.causes[cause] ?? cause },
  { key: "waiting", title: texts.waiting, kind: "number", show: ({ waiting }) => count(waiting) },
  { key: "replayed", title: texts.replayed, kind: "number", show: (row) => count(row.replayed) },
  { key: "newest", title: texts.newest, show: ({ newest }) => time(newest) },
  { key: "reason", title: texts.reason, show: ({ reason }) =>
    html`<span title=${reason}>${cut(reason.split("\n")[0], 160)}</span>` },
  { key: "more", title: texts.more, kind: "actions", show: (row) => html`
    <a class="button" aria-label=${texts.showOf(nameOf(row))}
      href=${link("pipeline", { tab: "dead_letters", rule: nameOf(row) })}>${texts.show}</a>
    ${replay && row.waiting > 0 && html`<button type="button" aria-label=${texts.replayOf(nameOf(row))}
      onClick=${() => replay(nameOf(row))}>${texts.replay}</button>`}` },
];

/** @param {{ rule: string }} props */
const OfRule = ({ rule }) => {
  const [replayed, setAll] = useState(false);
  const [isAsked, setAsked] = useState(false);
  const letters = useResource(`${rule} ${replayed}`, (signal) =>
    api.get(path("heliograph/pipeline/dead_letters/{rule}", rule), { limit: LIMIT, replayed }, signal));
  return html`
    <header class="page-head"><h2>${texts.of(rule)}</h2><div class="actions">
      ${may("pipeline:write") && html`<button type="button" onClick=${() => setAsked(true)}>
        ${texts.replayOf(rule)}</button>`}
      <a class="button" href=${link("pipeline", { tab: "dead_letters" })}>${texts.all}</a></div></header>
    <${CheckField} label=${texts.withReplayed} value=${replayed} onInput=${setAll} />
    <${Loaded} of=${letters}>${(/** @type {Api.DeadLetter[]} */ rows) => html`
      <${Table} caption=${texts.of(rule)} columns=${LETTER} rows=${rows.map((row, at) => ({ ...row, at }))}
        rowKey="at" empty=${texts.noneOf} isBusy=${letters.isLoading} />
      ${rows.length >= LIMIT && html`<p class="quiet">${texts.newestFirst(LIMIT)}</p>`}`}<//>
    ${isAsked && html`<${ReplayDialog} rule=${rule} onClose=${(/** @type {boolean} */ isDone) => {
      setAsked(false);
      if (isDone) letters.reload();
    }} />`}`;
};

/** @type {import("../../parts/table.js").Column<Api.DeadLetter>[]} */
const LETTER = [
  { key: "refused_at", title: texts.at, isHead: true, show: (row) =>
    html`${time(row.refused_at)}${row.replayed_at && html` <span class="badge good">${texts.wasReplayed}</span>`}` },
  { key: "why", title: texts.why, show: ({ cause, reason }) =>
    html`${texts.causes[cause] ?? cause}<br /><small title=${reason}>${cut(reason.split("\n")[0], 200)}</small>` },
  { key: "message", title: texts.message, kind: "code", show: (row) =>
    (row.topic === null ? "" : html`${cut(row.topic, 80)}<br /><small>
    ${cut(row.clientid ?? "", 60)}, ${time(row.stored_at)}</small>`) },
  { key: "payload", title: texts.payload, kind: "code", show: ({ payload }) =>
    html`<span title=${payload}>${cut(payload ?? "", 160)}</span>` },
  { key: "row", title: texts.row, kind: "code", show: ({ row }) =>
    html`<span title=${row}>${cut(row ?? "", 160)}</span>` },
];
