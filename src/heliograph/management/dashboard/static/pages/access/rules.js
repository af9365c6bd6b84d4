// @ts-check
/** The rules that the node keeps: of user names, of client ids, of all clients. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { own } from "../../kernel/own.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog, useDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { Empty, ErrorNote, Loaded } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import { nameOf } from "./adding.js";
import { placeOf, RulesDialog, RULES } from "./rules_dialog.js";
import everywhere from "../../texts/en/everywhere.js";
import shared from "../../texts/en/access.js";

const texts = shared.rules;
const LIMIT = 50;
/**
 * @typedef {"users" | "clients" | "all"} Kind
 * @typedef {import("./rules_dialog.js").Owner} Owner
 */
const KINDS = Object.entries(texts.kinds).map(([value, label]) => ({ value, label }));

/** @param {Api.BuiltInRule} rule */
const inWords = ({ permission, action, topic }) => `${permission} ${action} ${topic}`;

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export const RulesTab = ({ route }) => {
  const kind = /** @type {Kind} */ (own(texts.kinds, route.steps[2] ?? "") ? route.steps[2] : "users");
  const source = useResource("rules source", async (signal) =>
    (await api.get("authorization/sources", {}, signal)).sources.some((one) =>
      one.type === "built_in_database"));
  const make = useAction(async () => {
    await api.post("authorization/sources", { type: "built_in_database" });
    source.reload();
  });
  return html`<${Loaded} of=${source}>${(/** @type {boolean} */ isThere) => (isThere
    ? html`<${Owners} key=${kind} kind=${kind} />`
    : html`<${Empty}><p>${shared.authorization.noSource}</p>
        ${may("authorization:write") && html`<button type="button" class="main" disabled=${make.isRunning}
          onClick=${() => make.run()}>${shared.authorization.makeSource}</button>`}
        <${ErrorNote} error=${make.error} /><//>`)}<//>`;
};

/** @param {Kind} kind @param {string} like @param {number} page @param {AbortSignal} signal */
const load = async (kind, like, page, signal) => {
  if (kind !== "all") {
    const { data, meta } = await api.get(`${RULES}/${kind}`,
      { [kind === "users" ? "like_username" : "like_clientid"]: like, page, limit: LIMIT }, signal);
    return { rows: data.map((row) => ({ rules: row.rules, name: nameOf(row) })), hasNext: meta.hasnext };
  }
  const { rules } = await api.get(`${RULES}/all`, {}, signal);
  return { rows: rules.length ? [{ name: texts.kinds.all, rules }] : [], hasNext: false };
};

/** @param {{ kind: Kind }} props */
const Owners = ({ kind }) => {
  const [like, setLike] = useState("");
  const [wanted, setWanted] = useState({ like: "", page: 1 });
  const owners = useResource(JSON.stringify([kind, wanted]), (signal) => load(kind, wanted.like, wanted.page, signal));
  const dialog = useDialog({ data: owners.data?.rows, reload: owners.reload });
  const mayWrite = may("authorization:write");
  const search = submitting(() => setWanted({ like, page: 1 }));
  /** @type {import("../../parts/table.js").Column<Owner>[]} */
  const columns = [
    { key: "name", title: texts.name[kind], kind: "code", isHead: true },
    { key: "rules", title: texts.count, show: ({ rules }) =>
      html`<ol class="plain-list">${rules.map((rule, at) =>
      html`<li key=${at}><code>${inWords(rule)}</code></li>`)}</ol>` },
    { key: "do", title: shared.actions, kind: "actions", isShown: mayWrite, show: (row) => html`
      <button type="button" aria-label=${shared.changeNamed(row.name)} onClick=${() => dialog.show("change", row)}>
        ${shared.change}</button>
      <button type="button" class="danger" aria-label=${shared.removeNamed(row.name)}
        onClick=${() => dialog.show("delete", row)}>${everywhere.remove}</button>` },
  ];
  const ofAll = kind === "all" ? owners.data?.rows[0] : undefined;
  const add = () => (ofAll ? dialog.show("change", ofAll) : dialog.show("add"));
  return html`
    <form class="filters" role="search" onSubmit=${search}>
      <${Field} label=${texts.of} options=${KINDS} value=${kind}
        onInput=${(/** @type {string} */ chosen) => navigate(link("authorization", "rules", chosen))} />
      ${kind !== "all" && html`<${Field} label=${texts.name[kind]} type="search" value=${like} onInput=${setLike} />
        <button type="submit">${shared.search}</button>`}
      ${mayWrite && html`<button type="button" class="main" onClick=${add}>${texts.add[kind]}</button>`}
    </form>
    <${Loaded} of=${owners}>${(/** @type {Awaited<ReturnType<typeof load>>} */ { rows, hasNext }) => html`
      <${Table} caption=${texts.kinds[kind]} columns=${columns} rows=${rows}
        rowKey="name" empty=${texts.none} isBusy=${owners.isLoading} />
      ${kind !== "all" && html`<${Pager} hasMore=${hasNext} hasBefore=${wanted.page > 1}
        onMore=${() => setWanted({ ...wanted, page: wanted.page + 1 })}
        onBefore=${() => setWanted({ ...wanted, page: wanted.page - 1 })} />`}`}<//>
    ${(dialog.kind === "add" || dialog.kind === "change") && html`<${RulesDialog} kind=${kind} owner=${dialog.about}
      onClose=${dialog.close(texts.saved(dialog.about?.name ?? texts.name[kind]))} />`}
    ${dialog.kind === "delete" && html`<${ConfirmDialog}
      text=${texts.removeText(dialog.about.name)}
      action=${shared.removeNamed(dialog.about.name)} act=${() => api.del(placeOf(kind, dialog.about.name))}
        onClose=${dialog.close(texts.removed(dialog.about.name))} />`}`;
};
