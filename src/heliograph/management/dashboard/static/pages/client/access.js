// @ts-check
/** What the connection of a client remembers of what the client may do. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { time } from "../../kernel/format.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import texts from "../../texts/en/client_messages.js";
import { useTurn } from "./turn.js";

/** @type {import("../../parts/table.js").Column<Api.CachedDecision>[]} */
const COLUMNS = [
  { key: "access", title: texts.action, isHead: true },
  { key: "topic", title: texts.topic, kind: "code" },
  { key: "qos", title: texts.qos, kind: "number" },
  { key: "retain", title: texts.retain, show: (row) => (row.retain ? texts.yes : texts.no) },
  { key: "result", title: texts.result, show: ({ result }) => html`
    <span class=${`badge ${result === "allow" ? "good" : "bad"}`}>${result}</span>` },
  { key: "updated_time", title: texts.updatedAt, kind: "time", show: (row) => time(row.updated_time) },
];

/** @param {import("./one.js").TabProps} props */
export const AccessTab = ({ id, client, turn }) => {
  const where = path("clients/{clientid}/authorization/cache", id);
  const list = useResource(`${id} ${client?.connected_at}`, (signal) => api.get(where, {}, signal));
  useTurn(turn, list.reload);
  const forget = useAction(async () => {
    await api.del(where);
    tell(texts.forgotten);
    list.reload();
  });
  return html`
    <${Loaded} of=${list}>${(/** @type {Api.CachedDecision[]} */ rows) => html`
      <${Table} caption=${texts.access} columns=${COLUMNS} rows=${rows} rowKey="access topic qos retain"
        empty=${texts.noAccess} />`}<//>
    <${ErrorNote} error=${forget.error} />
    ${may("clients:write") && html`
      <button type="button" disabled=${forget.isRunning} onClick=${() => forget.run()}>${texts.forget}</button>`}`;
};
