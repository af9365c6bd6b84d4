// @ts-check
/** The subscriptions of a client, of which there may be many thousands; some are made and removed on its behalf. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { cut } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { Loaded, tell } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import texts from "../../texts/en/client_subscriptions.js";
import { byFilter, COLUMNS } from "../subscriptions/columns.js";
import { SubscribeDialog } from "./subscribe.js";
import { useTurn } from "./turn.js";

const LIMIT = 100;

/** @param {import("./one.js").TabProps} props */
export const SubscriptionsTab = ({ id, client, turn, reload }) => {
  const [typed, setTyped] = useState("");
  const [wanted, setWanted] = useState({ filter: "", page: 1 });
  const [asked, setAsked] = useState(/** @type {{ add?: boolean, remove?: string }} */ ({}));
  const list = useResource(JSON.stringify([id, wanted]), (signal) =>
    api.get("subscriptions", { clientid: id, ...byFilter(wanted.filter), page: wanted.page, limit: LIMIT }, signal));
  useTurn(turn, list.reload);
  const close = (/** @type {boolean} */ isDone) => {
    setAsked({});
    if (isDone) reload();
  };
  const leaf = (/** @type {number} */ by) => setWanted({ ...wanted, page: wanted.page + by });
  const remove = async () => {
    const topic = /** @type {string} */ (asked.remove);
    await api.post(path("clients/{clientid}/unsubscribe", id), { topic });
    tell(texts.removed(cut(topic, 60)));
  };
  const search = submitting(() => setWanted({ filter: typed, page: 1 }));
  return html`
    <form class="filters" role="search" onSubmit=${search}>
      <${Field} label=${texts.filter} hint=${texts.searchHint} value=${typed} onInput=${setTyped} type="search" />
      <button type="submit">${texts.search}</button>
      ${may("clients:write") && html`<button type="button" disabled=${!client.connected}
        title=${client.connected ? undefined : texts.mayAddHint}
          onClick=${() => setAsked({ add: true })}>${texts.add}</button>`}
    </form>
    <${Loaded} of=${list}>${(/** @type {Api.PageOfListedSubscription} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${columns((topic) => setAsked({ remove: topic }))} rows=${data}
        rowKey="clientid topic" empty=${wanted.filter ? texts.none : texts.noneOfClient} isBusy=${list.isLoading} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${wanted.page > 1} onMore=${() => leaf(1)} onBefore=${() => leaf(-1)}>
        ${meta.count !== undefined && texts.found(meta.count)}<//>`}<//>
    ${asked.add && html`<${SubscribeDialog} id=${id} onClose=${close} />`}
    ${asked.remove !== undefined && html`<${ConfirmDialog} title=${texts.removeTitle}
      text=${texts.removeText(cut(id, 100), cut(asked.remove, 200))}
      action=${texts.removeAct(cut(asked.remove, 40))} act=${remove} onClose=${close} />`}`;
};

/**
 * @param {(topic: string) => void} onRemove
 * @returns {import("../../parts/table.js").Column<Api.ListedSubscription>[]}
 */
const columns = (onRemove) => [
  ...COLUMNS.filter(({ key }) => key !== "clientid"),
  { key: "actions", title: texts.actions, kind: "actions", isShown: may("clients:write"), show: (row) => html`
    <button type="button" onClick=${() => onRemove(row.topic)} aria-label=${texts.removeAct(row.topic)}>
      ${texts.remove}</button>` },
];
