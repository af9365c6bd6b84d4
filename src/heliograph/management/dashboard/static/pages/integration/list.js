// @ts-check
/** All connectors, all actions or all sources, with how each is. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { count, cut, rate } from "../../kernel/format.js";
import { useLive } from "../../kernel/live.js";
import { useLiveRows } from "../../kernel/live_rows.js";
import { own } from "../../kernel/own.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog, useDialog } from "../../parts/dialog.js";
import { ErrorNote, Loaded, PageHead, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/integration.js";

/**
 * @typedef {"connectors" | "actions" | "sources"} Kind
 * @typedef {Api.IntegrationObject} Row
 */

/** @param {{ type: string, name: string }} row */
export const idOf = (row) => `${row.type}:${row.name}`;

/** The page of one of them. @param {Kind} kind */
export const pageOf = (kind) => kind.slice(0, -1);

export const SIGNS = { connected: "good", connecting: "warn", disconnected: "bad", inconsistent: "bad" };

/** @param {{ row: Row }} props */
const StatusBadge = ({ row }) => {
  const state = row.enable ? row.status : "disabled";
  const sign = own(SIGNS, state) ?? "";
  return html`<span class=${`badge ${sign}`}>${texts.states[state] ?? state}</span>`;
};

/** @param {{ kind: Kind }} props */
export default function IntegrationList({ kind }) {
  const words = texts[kind];
  const all = useResource(kind, (signal) => api.get(kind, {}, signal));
  const live = useLiveRows(rowsOf(useLive(kind)), all.data,
    (row) => ({ id: idOf(row), enable: row.enable }), all.reload);
  const dialog = useDialog(all);
  const turn = useAction(async (/** @type {Row} */ row) => {
    await api.put(path(`${kind}/{id}/enable/{enable}`, idOf(row), String(!row.enable)));
    all.reload();
  });
  const start = useAction(async (/** @type {Row} */ row) => {
    try {
      await api.post(path(`${kind}/{id}/{operation}`, idOf(row), "start"));
      tell(texts.started(idOf(row)));
    } finally {
      all.reload();
    }
  });
  const mayChange = may(`${kind}:write`);
  /** @type {import("../../parts/table.js").Column<Row>[]} */
  const columns = [...columnsOf(kind, live.now), {
    key: "more", title: texts.more, kind: "actions", isShown: mayChange, show: (row) => html`
    ${row.enable && html`<button type="button" aria-label=${`${texts.start} ${row.name}`} disabled=${start.isRunning}
      onClick=${() => start.run(row)}>${texts.start}</button>`}
    <button type="button" aria-label=${`${row.enable ? texts.disable : texts.enable} ${row.name}`}
      disabled=${turn.isRunning}
      onClick=${() => turn.run(row)}>${row.enable ? texts.disable : texts.enable}</button>
    <button type="button" class="danger" aria-label=${texts.removeAction(row.name)}
      onClick=${() => dialog.show("delete", row)}>${texts.remove}</button>`,
  }];
  return html`
    <${PageHead} title=${words.title}>
      <button type="button" onClick=${all.reload}>${everywhere.refresh}</button>
      ${mayChange && html`<a class="button main" href=${link(pageOf(kind))}>${words.add}</a>`}
    <//>
    <${ErrorNote} error=${turn.error ?? start.error} />
    <${Loaded} of=${all}>${(/** @type {Row[]} */ rows) => html`
      <${Table} caption=${words.title} columns=${columns} rowKey=${idOf} empty=${words.none} isBusy=${all.isLoading}
        rows=${rows.map((row) => ({ ...row, ...stateOf(live.since[idOf(row)]) }))} />`}<//>
    ${dialog.kind === "delete" && html`<${RemoveDialog} kind=${kind} row=${dialog.about}
      onClose=${dialog.close(texts.removed(idOf(dialog.about)))} />`}`;
}

/** What names one: the actions and sources of a connector, the rules of others. @param {Kind} kind @param {Row} row */
const usersOf = (kind, row) => (kind === "connectors" ? [...row.actions ?? [], ...row.sources ?? []] : row.rules ?? []);

/** @param {{ kind: Kind, row: Row, onClose: (isDone: boolean) => void }} props */
export const RemoveDialog = ({ kind, row, onClose }) => {
  const users = usersOf(kind, row).map((name) => (kind === "connectors" ? `${row.type}:${name}` : name));
  const words = texts[kind];
  const also_delete_dep_actions = users.length > 0;
  return html`
    <${ConfirmDialog} title=${words.removeTitle} text=${users.length ? words.removeUsed(users) : words.removeText()}
      action=${texts.removeAction(idOf(row))} name=${row.name} typed=${users.length > 0} onClose=${onClose}
      act=${() => api.del(path(`${kind}/{id}`, idOf(row)), { query: { also_delete_dep_actions } })} />`;
};

/**
 * What the stream tells of all, by their ids.
 * @param {Api.ConnectorsEvent | Api.ActionsEvent | Api.SourcesEvent | undefined} event
 */
export const rowsOf = (event) => event && ("actions" in event ? event.actions
  : "sources" in event ? event.sources : event.connectors);

/** How one is, without the rest. @param {Api.LiveState | undefined} live */
const stateOf = (live) => live && { status: live.status, status_reason: live.status_reason };

/**
 * How one is, and why.
 * @param {{ row: Row, live: Api.LiveState | undefined }} props `live`: what the stream tells of it.
 */
export const State = ({ row, live }) => {
  const now = { ...row, ...stateOf(live) };
  return html`<p><${StatusBadge} row=${now} /> ${now.status_reason}</p>`;
};

/** What lists show of what is counted: what went well, and what did not. @param {Kind} kind */
const countedOf = (kind) => ({ connectors: [], actions: ["success", "failed"],
  sources: ["received", "dropped"] }[kind]);

/**
 * @param {Kind} kind
 * @param {Record<string, Api.LiveState | undefined>} live
 * @returns {import("../../parts/table.js").Column<Row>[]}
 */
const columnsOf = (kind, live) => [
  { key: "name", title: texts.name, kind: "code", isHead: true, show: (row) =>
    html`<a href=${link(pageOf(kind), idOf(row))}>${row.name}</a>` },
  { key: "type", title: texts.type },
  { key: "connector", title: texts.connector, kind: "code", isShown: kind !== "connectors", show: (row) =>
    row.connector && html`<a href=${link("connector", `${row.type}:${row.connector}`)}>${row.connector}</a>` },
  { key: "status", title: texts.status, show: (row) => html`<${StatusBadge} row=${row} />` },
  { key: "reason", title: texts.reason, show: (row) => html`<span title=${row.status_reason}>
    ${cut(row.status_reason, 120)}</span>` },
  ...countedOf(kind).map((name, at) => ({
    key: name, title: texts.counts[name], kind: /** @type {const} */ ("number"),
    show: (/** @type {Row} */ row) => {
      const metrics = live[idOf(row)]?.metrics;
      return html`<span class=${at === 1 && metrics?.[name] ? "badge bad" : ""}>
        ${count(metrics?.[name])}</span>
        ${at === 0 && metrics?.rate ? html` <small class="quiet">${rate(metrics.rate)}</small>` : ""}`;
    },
  })),
  { key: "uses", title: texts.uses[kind], kind: "code", show: (row) =>
    cut(usersOf(kind, row).join(", "), 100) },
];
