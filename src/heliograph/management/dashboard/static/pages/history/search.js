// @ts-check
/** Stored messages of a topic filter, a client and a stretch of time, page after page. */
import { html, submitting, useMemo, useState } from "../../kernel/html.js";
import { api, urlOf } from "../../kernel/api.js";
import { bytes, cut, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { navigate, link, replaceQuery } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useCursor } from "../../parts/cursor.js";
import { Field } from "../../parts/field.js";
import { Loaded, tell } from "../../parts/notice.js";
import { PayloadLine } from "../../parts/payload.js";
import { Pager, Table } from "../../parts/table.js";
import { MessageDialog } from "./message_dialog.js";
import { ReplayDialog } from "./replay_dialog.js";
import { SpanFields, spanOf, timesOf } from "./span.js";
import texts from "../../texts/en/history.js";

const LIMIT = 50;
const LINE_BYTES = 200;
const EMPTY = { topic: "#", clientid: "", from: "", until: "", database: "messages", order: "newest" };
const ORDERS = Object.entries(texts.orders).map(([value, label]) => ({ value, label }));

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export const MessageSearch = ({ route }) => {
  const asked = { ...EMPTY, ...route.query, span: spanOf(route.query.span) };
  const [typed, setTyped] = useState(asked);
  const key = JSON.stringify(asked);
  const [turn, setTurn] = useState(0);
  const order = asked.order === "oldest" ? "oldest" : "newest";
  const selection = useMemo(() => ({ topic: asked.topic, clientid: asked.clientid, database: asked.database,
    ...timesOf(asked) }), [key, turn]);
  const databases = useResource("databases", (signal) => (may("storage:read") ? api.get("ds/storages", {}, signal)
    : Promise.resolve([])));
  const list = useCursor(JSON.stringify([selection, order, turn]));
  const [open, setOpen] = useState(/** @type {Open | null} */ (null));
  const page = useResource(JSON.stringify([selection, order, turn, list.cursor]), (signal) =>
    api.get("heliograph/messages", { ...selection, order, limit: LIMIT, cursor: list.cursor,
      max_payload_bytes: LINE_BYTES }, signal));
  const change = (/** @type {Record<string, string>} */ more) =>
    setTyped((old) => ({ ...old, ...more }));
  const search = submitting(() => {
    setTurn(turn + 1);
    replaceQuery({ ...typed, topic: typed.topic || "#" });
  });
  const span = asked.span === "custom" ? texts.between(asked.from && time(asked.from), asked.until && time(asked.until))
    : texts.spans[asked.span];
  const field = page.error?.field;
  return html`
    <form class="filters" role="search" onSubmit=${search}>
      <${Field} label=${texts.topic} value=${typed.topic} error=${field === "topic" ? page.error?.message : ""}
        onInput=${(/** @type {string} */ topic) => change({ topic })} class="code" />
      <${Field} label=${texts.client} value=${typed.clientid}
        onInput=${(/** @type {string} */ clientid) => change({ clientid })} />
      <${SpanFields} asked=${typed} onChange=${change} />
      <${Field} label=${texts.order} value=${typed.order} options=${ORDERS}
        onInput=${(/** @type {string} */ chosen) => change({ order: chosen })} />
      ${(databases.data ?? []).length > 1 && html`<${Field} label=${texts.database} value=${typed.database}
        options=${databases.data} onInput=${(/** @type {string} */ database) => change({ database })} />`}
      <button type="submit" class="main">${texts.search}</button>
    </form>
    ${field !== "topic" && html`<${Loaded} of=${page}>${(/** @type {Api.StoredMessageList} */ { data, meta }) => html`
      <div class="actions list-actions">
        <a class="button" download="messages.jsonl" title=${texts.exportHint}
          href=${urlOf("heliograph/messages/export", selection)}>${texts.exportAs}</a>
        ${may("publish") && html`<button type="button" disabled=${data.length === 0}
          onClick=${() => setOpen({ kind: "replay" })}>${texts.replay}</button>`}
      </div>
      <${Table} caption=${texts.tabs.messages} columns=${columns(setOpen)} rows=${data}
        rowKey="id" empty=${texts.none} isBusy=${page.isLoading} />
      <${Pager} hasMore=${Boolean(meta.cursor)} hasBefore=${list.hasBefore} onMore=${() => list.next(meta.cursor)}
        onBefore=${list.before}>
        ${texts.inOrder[order]}<//>`}<//>`}
    ${open?.kind === "message" && html`<${MessageDialog} message=${open.message} onClose=${() => setOpen(null)} />`}
    ${open?.kind === "replay" && html`<${ReplayDialog} selection=${selection} span=${span}
      onClose=${(/** @type {boolean} */ isDone) => {
      setOpen(null);
      if (!isDone) return;
      tell(texts.begun);
      navigate(link("history", "replays"));
    }} />`}`;
};

/**
 * @typedef {{ kind: "message", message: Api.StoredMessageObject } | { kind: "replay" }} Open
 * @param {(open: Open) => void} setOpen
 * @returns {import("../../parts/table.js").Column<Api.StoredMessageObject>[]}
 */
const columns = (setOpen) => [
  { key: "stored_at", title: texts.storedAt, kind: "time", show: (row) => time(row.stored_at) },
  { key: "topic", title: texts.topicName, kind: "code", isHead: true },
  { key: "from_clientid", title: texts.client, kind: "code", show: (row) =>
    html`<span class="nowrap" title=${row.from_clientid}>${cut(row.from_clientid, 28)}</span>` },
  { key: "qos", title: texts.qos, kind: "number" },
  { key: "payload", title: texts.payload, show: (row) => html`<${PayloadLine} base64=${row.payload}
    size=${row.payload_bytes} />` },
  { key: "payload_bytes", title: texts.size, kind: "number", show: (row) => bytes(row.payload_bytes) },
  { key: "do", title: texts.actions, kind: "actions", show: (row) => html`
    <button type="button" aria-label=${texts.showNamed(row.topic, time(row.stored_at))}
      onClick=${() => setOpen({ kind: "message", message: row })}>${texts.show}</button>` },
];
