// @ts-check
/** When and why a client was disconnected, as far as the node remembers it. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { duration, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { useCursor } from "../../parts/cursor.js";
import { Loaded } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import texts from "../../texts/en/client_messages.js";
import { versionOf } from "../clients/columns.js";
import { useTurn } from "./turn.js";

const LIMIT = 100;

/** @param {Api.ListedDisconnect} row */
const lasted = ({ connected_at: from, at }) => duration((Date.parse(at) - Date.parse(from)) / 1000);

/** @type {import("../../parts/table.js").Column<Api.ListedDisconnect>[]} */
const COLUMNS = [
  { key: "at", title: texts.at, kind: "time", isHead: true, show: (row) => time(row.at) },
  { key: "reason", title: texts.reason, kind: "code" },
  { key: "connected_at", title: texts.connectedAt, kind: "time", show: (row) => time(row.connected_at) },
  { key: "lasted", title: texts.lasted, show: lasted },
  { key: "peername", title: texts.address, kind: "code" },
  { key: "listener", title: texts.listener },
  { key: "proto_ver", title: texts.version, show: versionOf },
];

/** @param {import("./one.js").TabProps} props */
export const DisconnectsTab = ({ id, client, turn }) => {
  const key = `${id} ${client?.connected_at}`;
  const place = useCursor(key);
  const list = useResource(`${key} ${place.cursor}`, (signal) =>
    api.get(path("heliograph/clients/{clientid}/disconnects", id), { limit: LIMIT, cursor: place.cursor }, signal));
  useTurn(turn, list.reload);
  return html`<${Loaded} of=${list}>${(/** @type {Api.DisconnectList} */ { data, meta }) => html`
    <${Table} caption=${texts.disconnects} columns=${COLUMNS} rows=${data} isBusy=${list.isLoading}
      rowKey="at peername" empty=${texts.noDisconnects} />
    ${(place.hasBefore || meta.hasnext) && html`<${Pager} hasMore=${meta.hasnext} hasBefore=${place.hasBefore}
      onMore=${() => place.next(meta.cursor)} onBefore=${place.before} />`}`}<//>`;
};
