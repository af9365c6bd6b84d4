// @ts-check
/** The revisions that are kept: what each has otherwise than now, its text, and the way back to it. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { time } from "../../kernel/format.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { Dialog } from "../../parts/dialog.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import { PlanTable } from "./plan.js";
import { Terms, isRisky, termsOf, useTerms } from "./terms.js";
import texts from "../../texts/en/configuration.js";
import trial from "../../texts/en/trial.js";

/** @typedef {import("./page.js").State} State */

/** Who it was, without the number of the request. @param {string} who */
export const personOf = (who) => who.replace(/, request [0-9a-f]+$/, "");

/** @param {State} state @returns {import("../../parts/table.js").Column<Api.RevisionObject>[]} */
const columnsOf = (state) => [
  { key: "number", title: texts.revision, isHead: true, show: (row) =>
    html`<a href=${link("configuration", "revisions", row.number)}>${row.number}</a>
    ${" "}${row.number === state.revision && html`<span class="badge good">${texts.present}</span>`}` },
  { key: "time", title: texts.time, show: (row) => time(row.time) },
  { key: "who", title: texts.who, show: (row) => html`<span title=${row.who}>${personOf(row.who)}</span>` },
  { key: "comment", title: texts.comment },
];

/** @param {{ state: State, number: string | undefined, reload: () => void }} props */
export const RevisionsTab = ({ state, number, reload }) => {
  const list = useResource(`revisions ${state.revision}`, (signal) =>
    api.get("heliograph/configuration/revisions", {}, signal));
  return html`
    <${Loaded} of=${list}>${(/** @type {Api.RevisionObject[]} */ rows) => html`
      <${Table} caption=${texts.revisions} columns=${columnsOf(state)} rows=${rows}
        rowKey="number" empty=${texts.noRevisions} />`}<//>
    ${number && html`<${RevisionDialog} key=${number} number=${Number(number)} state=${state} reload=${reload}
      onClose=${() => navigate(link("configuration", "revisions"))} />`}`;
};

/** @type {import("../../parts/table.js").Column<Api.SettingDifference>[]} */
const DIFF = [
  { key: "path", title: texts.diffColumns.path, kind: "code", isHead: true },
  { key: "old", title: texts.diffColumns.old, kind: "code", show: (row) => row.old
    ?? html`<span class="quiet">${texts.notSet}</span>` },
  { key: "new", title: texts.diffColumns.new, kind: "code", show: (row) => row.new
    ?? html`<span class="quiet">${texts.notSet}</span>` },
];

/** @param {{ number: number, state: State, reload: () => void, onClose: () => void }} props */
const RevisionDialog = ({ number, state, reload, onClose }) => {
  const one = useResource(String(number), (signal) =>
    api.get(path("heliograph/configuration/revisions/{number}", number), {},
    signal));
  const diff = useResource(`${number} ${state.revision}`, (signal) =>
    api.get("heliograph/configuration/diff", { old: number, new: state.revision }, signal));
  const [isGoing, setGoing] = useState(false);
  return html`
    <${Dialog} title=${texts.revisionTitle(number)} onClose=${onClose} isWide>
      <h3>${texts.diffToNow(number)}</h3>
      <${Loaded} of=${diff}>${(/** @type {Api.SettingDifference[]} */ rows) => html`
        <${Table} caption=${texts.diffToNow(number)} columns=${DIFF} rows=${rows}
          rowKey="path" empty=${texts.noDiff} />`}<//>
      <details><summary>${texts.whole}</summary><${Loaded} of=${one}>
        ${(/** @type {Api.WholeRevision} */ data) => html`<pre tabindex="0">${data.text}</pre>`}<//></details>
      ${may("config:write") && number !== state.revision && (isGoing
        ? html`<${Loaded} of=${diff}>${(/** @type {Api.SettingDifference[]} */ rows) => html`
          <${GoBack} number=${number} state=${state} isTrial=${isRisky(rows.map((row) => row.path))}
          onDone=${() => { reload(); onClose(); }} />`}<//>`
        : html`<footer><button type="button" onClick=${() => setGoing(true)}>
          ${texts.goBack(number)} …</button></footer>`)}
    <//>`;
};

/** @param {{ number: number, state: State, isTrial: boolean, onDone: () => void }} props */
const GoBack = ({ number, state, isTrial, onDone }) => {
  const terms = useTerms(isTrial);
  const plan = useResource(`${number} ${state.revision}`, (signal) =>
    api.post("heliograph/configuration/rollback/plan", { number, revision: state.revision }, { signal }));
  const { run, isRunning, error } = useAction(async () => {
    const done = await api.post("heliograph/configuration/rollback",
      { number, revision: state.revision, ...termsOf(terms) });
    tell(done.confirm_until ? trial.onTrial(done.revision) : trial.applied(done.revision));
  });
  const submit = submitting(async () => {
    if (await run()) onDone();
  });
  return html`<form onSubmit=${submit}><p>${texts.goBackTold(number)}</p>
    <${Loaded} of=${plan}>${(/** @type {Api.ConfigurationOutcome} */ { settings }) => html`
      <${PlanTable} settings=${settings} />`}<//>
    <${Terms} terms=${terms} />
    <${ErrorNote} error=${error} />
    <footer><button type="submit" class="danger" disabled=${isRunning || !plan.data}>
      ${texts.goBack(number)}</button></footer></form>`;
};
