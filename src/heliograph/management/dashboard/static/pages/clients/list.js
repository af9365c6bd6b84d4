// @ts-check
/** The clients that have a session, page after page, or those that have most of something. */
import { html, useEffect, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { replaceQuery } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useCursor } from "../../parts/cursor.js";
import { Loaded, PageHead, tell } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import common from "../../texts/en/everywhere.js";
import texts from "../../texts/en/clients.js";
import { COLUMNS, FIELDS, isUncounted } from "./columns.js";
import { ClientFilters, wantedBy } from "./filters.js";
import { ManyActions } from "./many.js";

const LIMIT = 100;
const CHOSEN_MAX = 1000;
const WHERE = "heliograph/clients";

/** What a link sorts by; nothing where it names no such column. @param {string} by */
const sortOf = (by = "") => (COLUMNS.some(({ key, isSortable }) => isSortable && key === by) ? by : "");

/** @param {string} sort @param {boolean} hasBefore */
const emptyText = (sort, hasBefore) => {
  if (!sort) return texts.none;
  return hasBefore ? texts.noMore : texts.noneSorted;
};

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export const ClientList = ({ route }) => {
  const query = { ...route.query, sort: sortOf(route.query.sort) };
  const key = JSON.stringify(query);
  const wanted = wantedBy(query);
  const place = useCursor(key);
  const [held, setHeld] = useState({ key, keys: /** @type {Set<string>} */ (new Set()) });
  const keys = held.key === key ? held.keys : new Set();
  const choose = (/** @type {Set<string>} */ next) => setHeld({ key, keys: new Set([...next].slice(0, CHOSEN_MAX)) });
  const page = useResource(JSON.stringify([query, place.cursor]), (signal) => api.get(
    WHERE, { ...wanted, sort: query.sort, limit: LIMIT, cursor: place.cursor, fields: FIELDS.join(",") }, signal));
  useEffect(() => {
    if (page.error?.field !== "cursor") return; // a node that has restarted knows it no more
    tell(texts.beginsAnew);
    place.begin();
  }, [page.error]);
  const sortBy = (/** @type {import("../../parts/table.js").Sort} */ { by }) =>
    replaceQuery({ ...query, sort: by === query.sort ? "" : by });
  const done = () => { choose(new Set()); page.reload(); };
  return html`
    <${PageHead} title=${texts.title}>
      <${ManyActions} wanted=${wanted} chosen=${[...keys]} onDone=${done} clear=${() => choose(new Set())} />
      <button type="button" onClick=${page.reload}>${common.refresh}</button>
    <//>
    <${ClientFilters} key=${key} query=${query}
      onSearch=${(/** @type {Record<string, string>} */ next) => replaceQuery({ ...next, sort: query.sort })} />
    <${Loaded} of=${page}>${(/** @type {Api.ClientCursorPage} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${COLUMNS} rows=${data}
        rowKey="clientid"
        empty=${emptyText(query.sort, place.hasBefore)} isBusy=${page.isLoading}
        sort=${query.sort ? { by: query.sort, isDown: true } : undefined}
        onSort=${sortBy}
        chosen=${may("clients:write") ? { keys, set: choose } : undefined} />
      <${Hints} sort=${query.sort} rows=${data} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${place.hasBefore} onMore=${() => place.next(meta.cursor)}
        onBefore=${place.before}>
        <${Found} meta=${meta} sort=${query.sort} onNewest=${() => replaceQuery({ ...query, sort: "" })} />
      <//>`}<//>`;
};

/** What the numbers leave out. @param {{ sort: string, rows: Api.ClientObject[] }} props */
const Hints = ({ sort, rows }) => html`
  ${sort && sort !== "behind" && html`<p class="quiet">${texts.onDisk}</p>`}
  ${rows.some(({ asleep }) => asleep) && html`<p class="quiet">${texts.asleep}</p>`}
  ${(sort === "backlog" || rows.some(isUncounted)) && html`<p class="quiet">${texts.inStorage}</p>`}`;

/** @param {{ meta: Api.CursorMeta, sort?: string, onNewest: () => void }} props */
const Found = ({ meta, sort, onNewest }) => {
  if (!sort) return meta.count !== undefined && texts.found(meta.count);
  const title = COLUMNS.find(({ key }) => key === sort)?.title ?? sort;
  return html`${texts.most(title)}
    <button type="button" class="plain" onClick=${onNewest}>${texts.newest}</button>`;
};
