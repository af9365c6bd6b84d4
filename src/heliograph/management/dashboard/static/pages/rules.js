// @ts-check
/** All rules with what became of the messages that they matched. */
import { html, submitting, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { cut } from "../kernel/format.js";
import { useLive } from "../kernel/live.js";
import { useAction, useResource } from "../kernel/resource.js";
import { link, replaceQuery } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { ErrorNote, Loaded, PageHead, tell } from "../parts/notice.js";
import { Pager, Table } from "../parts/table.js";
import { columnsOfCounts } from "./rule/counts.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/rules.js";

const LIMIT = 100;

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function RulesPage({ route }) {
  const like_id = route.query.id ?? "";
  const page = Number(route.query.page ?? 1);
  const [typed, setTyped] = useState(like_id);
  const [gone, setGone] = useState("");
  const rules = useResource(JSON.stringify([like_id, page]), (signal) =>
    api.get("rules", { like_id, page, limit: LIMIT }, signal));
  const live = useLive("rules")?.rules ?? {};
  const turn = useAction(async (/** @type {Api.RuleObject} */ rule) => {
    const now = await api.get(path("rules/{id}", rule.id));
    await api.put(path("rules/{id}", rule.id), { ...now, enable: !rule.enable });
    rules.reload();
  });
  const search = submitting(() => replaceQuery({ id: typed }));
  /** @type {import("../parts/table.js").Column<Api.RuleObject>[]} */
  const columns = [...columnsOf(live), {
    key: "more", title: texts.more, kind: "actions", isShown: may("rules:write"), show: (rule) => html`
      <button type="button" disabled=${turn.isRunning} onClick=${() => turn.run(rule)}
        aria-label=${`${rule.enable ? texts.disable : texts.enable} ${rule.id}`}>
          ${rule.enable ? texts.disable : texts.enable}</button>
      <button type="button" class="danger" aria-label=${texts.removeAction(rule.id)}
        onClick=${() => setGone(rule.id)}>${texts.remove}</button>`,
  }];
  return html`
    <${PageHead} title=${texts.title}>
      <button type="button" onClick=${rules.reload}>${everywhere.refresh}</button>
      ${may("rules:write") && html`<a class="button main" href=${link("rule")}>${texts.add}</a>`}
    <//>
    <form class="filters" role="search" onSubmit=${search}>
      <${Field} label=${texts.id} value=${typed} onInput=${setTyped} type="search" />
      <button type="submit">${texts.search}</button>
    </form>
    <${ErrorNote} error=${turn.error} />
    <${Loaded} of=${rules}>${(/** @type {Api.PageOfRuleObject} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${data}
        rowKey="id"
        empty=${like_id ? texts.noneFound : texts.none} isBusy=${rules.isLoading} />
      ${(page > 1 || meta.hasnext) && html`<${Pager} hasMore=${meta.hasnext} hasBefore=${page > 1}
        onMore=${() => replaceQuery({ id: like_id, page: page + 1 })}
          onBefore=${() => replaceQuery({ id: like_id, page: page - 1 })} />`}`}<//>
    ${gone && html`<${ConfirmDialog} title=${texts.removeTitle} text=${texts.removeText(gone)}
      action=${texts.removeAction(gone)}
      act=${() => api.del(path("rules/{id}", gone))} onClose=${(/** @type {boolean} */ isDone) => {
        setGone("");
        if (isDone) tell(texts.removed(gone));
        if (isDone) rules.reload();
      }} />`}`;
}

/**
 * @param {Record<string, Api.LiveRule | undefined>} live
 * @returns {import("../parts/table.js").Column<Api.RuleObject>[]}
 */
const columnsOf = (live) => [
  { key: "id", title: texts.id, kind: "code", isHead: true, show: ({ id }) =>
    html`<a href=${link("rule", id)}>${id}</a>` },
  { key: "from", title: texts.from, kind: "code", show: ({ from }) => cut(from.join(", "), 120) },
  { key: "enable", title: texts.state, show: ({ enable }) =>
    html`<span class=${`badge ${enable ? "good" : ""}`}>${enable ? texts.enabled : texts.disabled}</span>` },
  ...columnsOfCounts(live),
  { key: "last_error", title: texts.lastError, show: ({ id }) =>
    html`<span title=${live[id]?.last_error}>${cut(problemOf(live[id]?.last_error ?? ""), 90)}</span>` },
];

/** What went wrong, without the message that it went wrong with. @param {string} text */
const problemOf = (text) => /\[\w+\] ([^\n]*)/.exec(text)?.[1] ?? text;
