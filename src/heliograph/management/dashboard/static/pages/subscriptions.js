// @ts-check
/** Subscriptions of all clients: by filter, client and group, or those that get what is published to a topic. */
import { html, submitting, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { useResource } from "../kernel/resource.js";
import { replaceQuery } from "../kernel/router.js";
import { Field } from "../parts/field.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Pager, Table } from "../parts/table.js";
import common from "../texts/en/everywhere.js";
import texts from "../texts/en/client_subscriptions.js";
import { byFilter, COLUMNS } from "./subscriptions/columns.js";

const LIMIT = 100;

/** @typedef {{ look?: string, text?: string, clientid?: string, group?: string, page?: string }} Wanted */

/** @param {Wanted} wanted @param {AbortSignal} signal */
const load = ({ look, text = "", clientid, group, page = "1" }, signal) => {
  const shared = { clientid, share_group: group, page, limit: LIMIT };
  return look === "receives" && text
    ? api.get("heliograph/subscriptions", { receives: text, ...shared }, signal)
    : api.get("subscriptions", { ...byFilter(text), ...shared }, signal);
};

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function SubscriptionsPage({ route }) {
  const query = /** @type {Wanted} */ (route.query);
  const key = JSON.stringify(query);
  const page = Number(query.page ?? 1);
  const list = useResource(key, (signal) => load(query, signal));
  const turn = (/** @type {number} */ by) => replaceQuery({ ...query, page: page + by });
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${list.reload}>${common.refresh}</button><//>
    <${Search} key=${key} query=${query} />
    <${Loaded} of=${list}>${(/** @type {Api.PageOfListedSubscription} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${COLUMNS} rows=${data} rowKey="clientid topic" empty=${texts.none}
        isBusy=${list.isLoading} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${page > 1} onMore=${() => turn(1)} onBefore=${() => turn(-1)}>
        ${meta.count !== undefined && texts.found(meta.count)}<//>`}<//>`;
}

/** @param {{ query: Wanted }} props */
const Search = ({ query }) => {
  const [typed, setTyped] = useState(query);
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) => setTyped({ ...typed, [name]: value });
  const submit = submitting(() => replaceQuery({ ...typed, page: "" }));
  return html`
    <form class="filters" role="search" onSubmit=${submit}>
      <${Field} label=${texts.look} value=${typed.look ?? "filter"} onInput=${put("look")} options=${texts.looks} />
      <${Field} label=${texts.text} value=${typed.text ?? ""} onInput=${put("text")} type="search" />
      <${Field} label=${texts.clientid} value=${typed.clientid ?? ""} onInput=${put("clientid")} type="search" />
      <${Field} label=${texts.group} value=${typed.group ?? ""} onInput=${put("group")} type="search" />
      <button type="submit" class="main">${texts.search}</button>
    </form>`;
};
