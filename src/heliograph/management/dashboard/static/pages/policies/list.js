// @ts-check
/** Validations, or transformations, in the order in which messages pass through them. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { cut } from "../../kernel/format.js";
import { useLive } from "../../kernel/live.js";
import { useLiveRows } from "../../kernel/live_rows.js";
import { own } from "../../kernel/own.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog, useDialog } from "../../parts/dialog.js";
import { ErrorNote, Loaded, PageHead } from "../../parts/notice.js";
import { counted } from "../../parts/numbers.js";
import { Table } from "../../parts/table.js";
import { COUNTED, KINDS, placeOf, rowsOf } from "./kinds.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/policies.js";

/**
 * @typedef {import("./kinds.js").Policy & { at: number }} Row
 * @param {{ kind: import("./kinds.js").Kind }} props
 */
export default function PolicyList({ kind }) {
  const words = texts[kind];
  const all = useResource(kind, async (signal) => (await api.get(kind, {}, signal))
    .map((row, at) => ({ ...row, at })));
  const live = useLiveRows(rowsOf(useLive(kind)), all.data, ({ name, enable }) => ({ id: name, enable }), all.reload);
  const dialog = useDialog(all);
  const change = useAction(async (/** @type {() => Promise<unknown>} */ act) => {
    await act();
    all.reload();
  });
  const turn = (/** @type {Row} */ row) =>
    change.run(() => api.post(path(`${KINDS[kind].path}/enable/{enable}`, row.name, String(!row.enable))));
  const move = (/** @type {Row} */ row, /** @type {number} */ by) => change.run(() => {
    const order = (all.data ?? []).map(({ name }) => name);
    [order[row.at], order[row.at + by]] = [order[row.at + by], order[row.at]];
    return api.post(`${kind}/reorder`, { order });
  });
  const mayChange = may("policies:write");
  const isBusy = change.isRunning || all.isLoading;
  /** @type {import("../../parts/table.js").Column<Row>[]} */
  const columns = [...columnsOf(kind, live.now), {
    key: "more", title: texts.more, kind: "actions", isShown: mayChange, show: (row) => html`
    <button type="button" aria-label=${`${texts.up} ${row.name}`} disabled=${isBusy || row.at === 0}
      onClick=${() => move(row, -1)}>↑</button>
    <button type="button" aria-label=${`${texts.down} ${row.name}`}
      disabled=${isBusy || row.at + 1 === all.data?.length} onClick=${() => move(row, 1)}>↓</button>
    <button type="button" aria-label=${`${row.enable ? texts.turnOff : texts.turnOn} ${row.name}`} disabled=${isBusy}
      onClick=${() => turn(row)}>${row.enable ? texts.turnOff : texts.turnOn}</button>
    <button type="button" class="danger" aria-label=${texts.removeAction(row.name)}
      onClick=${() => dialog.show("delete", row)}>${texts.remove}</button>`,
  }];
  return html`
    <${PageHead} title=${words.title}>
      <button type="button" onClick=${all.reload}>${everywhere.refresh}</button>
      ${mayChange && html`<a class="button main" href=${link(KINDS[kind].page)}>${words.add}</a>`}
    <//>
    <${ErrorNote} error=${change.error} />
    <${Loaded} of=${all}>${(/** @type {Row[]} */ rows) => html`
      <${Table} caption=${words.title} columns=${columns} rows=${rows} rowKey="name"
        empty=${words.none} isBusy=${all.isLoading} />`}<//>
    ${dialog.kind === "delete" && html`<${ConfirmDialog} title=${words.removeTitle}
      text=${texts.removeText(dialog.about.name)}
      action=${texts.removeAction(dialog.about.name)} act=${() => api.del(placeOf(kind, dialog.about.name))}
        onClose=${dialog.close(texts.removed(dialog.about.name))} />`}`;
}

/**
 * @param {import("./kinds.js").Kind} kind
 * @param {Record<string, Api.LivePolicy | undefined>} live
 * @returns {import("../../parts/table.js").Column<Row>[]}
 */
const columnsOf = (kind, live) => [
  { key: "at", title: texts.order, kind: "number", show: ({ at }) => at + 1 },
  { key: "name", title: texts.name, kind: "code", isHead: true, show: ({ name }) =>
    html`<a href=${link(KINDS[kind].page, name)}>${name}</a>` },
  { key: "topics", title: texts.topics, kind: "code", show: ({ topics }) => cut(topics.join(", "), 100) },
  { key: "failure", title: texts.failure, show: ({ failure_action: action }) =>
    own(texts[kind].actions, action) },
  { key: "enable", title: texts.state, show: ({ enable }) =>
    html`<span class=${`badge ${enable ? "good" : ""}`}>${enable ? texts.enabled : texts.disabled}</span>` },
  ...COUNTED.map((one) => ({
    key: one, title: texts[one], kind: /** @type {const} */ ("number"), show: (/** @type {Row} */ { name }) =>
      counted(live[name]?.[one], live[name]?.[`${one}_rate`], one === "failed"),
  })),
];
