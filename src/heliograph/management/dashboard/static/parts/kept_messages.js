// @ts-check
/** Messages that the node keeps, retained or delayed ones: listed page by page, shown, and deleted after asking. */
import { html, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { bytes } from "../kernel/format.js";
import { useResource } from "../kernel/resource.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, Dialog } from "./dialog.js";
import { FactList } from "./facts.js";
import { Loaded, PageHead, tell } from "./notice.js";
import { Payload } from "./payload.js";
import { Pager, Table } from "./table.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/kept_messages.js";

const LIMIT = 100;

/**
 * What a page has of its messages: texts, where the API has one and what is asked of it, and what is shown besides
 * topic, client and payload.
 * @typedef {{
 *   title: string, intro: string, none: string, message: string, found: (many: number) => string,
 *   showNamed: (topic: string) => string, deleteNamed: (topic: string) => string, deleted: (topic: string) => string,
 * }} Words
 * @typedef {Api.RetainedMessage | Api.DelayedMessage} Row
 * @typedef {{ kind: "show" | "delete", row: Row }} Open
 */

/**
 * @template {Row} [One=Row]
 * @typedef {{
 *   words: Words, placeOf: (row: One) => "mqtt/retainer/message/{topic}" | "mqtt/delayed/messages/{node}/{msgid}",
 *   columns: import("./table.js").Column<One>[], facts: (one: One) => [string, string][],
 *   deleteText: (row: One) => string, asked?: Record<string, number>,
 * }} Kind
 */

/**
 * @param {{ kind: Kind, where: "mqtt/retainer/messages" | "mqtt/delayed/messages", query?: Record<string, string>,
 *   children?: unknown }} props
 */
export const KeptMessages = ({ kind, where, query = {}, children }) => {
  const { words, placeOf } = kind;
  const key = JSON.stringify([where, query]);
  const [at, setAt] = useState({ key, page: 1 });
  const page = at.key === key ? at.page : 1;
  const turn = (/** @type {number} */ pages) => () => setAt({ key, page: page + pages });
  const [open, setOpen] = useState(/** @type {Open | null} */ (null));
  const found = useResource(`${key} ${page}`, (signal) => api.get(where, { ...query, page, limit: LIMIT }, signal));
  const close = (/** @type {boolean} */ isDone) => {
    setOpen(null);
    if (!isDone) return;
    if (open) tell(words.deleted(open.row.topic));
    found.reload();
  };
  return html`
    <${PageHead} title=${words.title}><button type="button" onClick=${found.reload}>${everywhere.refresh}</button><//>
    <p class="quiet">${words.intro}</p>
    ${children}
    <${Loaded} of=${found}>${(/** @type {Api.PageOfRetainedMessage} */ { data, meta }) => html`
      <${Table} caption=${words.title} columns=${columnsOf(kind, setOpen)} rows=${data} rowKey=${placeOf}
        empty=${words.none} isBusy=${found.isLoading} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${page > 1} onMore=${turn(1)} onBefore=${turn(-1)}>
        ${meta.count !== undefined && words.found(meta.count)}<//>`}<//>
    ${open?.kind === "show" && html`<${Message} kind=${kind} row=${open.row} onClose=${() => setOpen(null)} />`}
    ${open?.kind === "delete" && html`<${ConfirmDialog}
      text=${kind.deleteText(open.row)} action=${words.deleteNamed(open.row.topic)}
      act=${() => api.del(placeOf(open.row))} onClose=${close} />`}`;
};

/** @param {Kind} kind @param {(open: Open) => void} setOpen @returns {import("./table.js").Column<Row>[]} */
const columnsOf = ({ words, columns }, setOpen) => [
  { key: "topic", title: texts.topic, kind: "code", isHead: true },
  { key: "from_clientid", title: texts.client, kind: "code" },
  ...columns,
  { key: "qos", title: texts.qos, kind: "number" },
  { key: "payload_bytes", title: texts.size, kind: "number", show: (row) => bytes(row.payload_bytes) },
  { key: "do", title: texts.actions, kind: "actions", show: (row) => html`
    <button type="button" aria-label=${words.showNamed(row.topic)} onClick=${() => setOpen({ kind: "show", row })}>
      ${texts.show}</button>
    ${may("clients:write") && html`<button type="button" class="danger" aria-label=${words.deleteNamed(row.topic)}
      onClick=${() => setOpen({ kind: "delete", row })}>${everywhere.remove}</button>`}` },
];

/** @param {{ kind: Kind, row: Row, onClose: () => void }} props */
const Message = ({ kind, row, onClose }) => {
  const where = kind.placeOf(row);
  const found = useResource(where, (signal) => api.get(where, kind.asked, signal));
  return html`
    <${Dialog} title=${kind.words.message} isWide onClose=${onClose}>
      <${Loaded} of=${found}>${(/** @type {Row} */ one) => html`
        <${FactList} rows=${[
          [texts.topic, html`<code>${one.topic}</code>`],
          [texts.client, one.from_clientid],
          [texts.username, one.from_username || "–"],
          ...kind.facts(one),
          [texts.qos, one.qos],
          [texts.id, html`<code>${one.msgid}</code>`],
        ]} />
        <h3>${texts.payload}</h3>
        ${one.payload === undefined ? html`<p>${texts.tooLarge}</p>`
          : html`<${Payload} base64=${one.payload} size=${one.payload_bytes} />`}`}<//>
    <//>`;
};
