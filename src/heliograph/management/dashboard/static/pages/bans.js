// @ts-check
/** Who may not connect. */
import { html, submitting, useState } from "../kernel/html.js";
import { api, ApiError, path } from "../kernel/api.js";
import { count, time } from "../kernel/format.js";
import { useResource } from "../kernel/resource.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, useDialog } from "../parts/dialog.js";
import { FormDialog } from "../parts/form_dialog.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Field } from "../parts/field.js";
import { Pager, Table } from "../parts/table.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/bans.js";

const LIMIT = 100;
const KINDS = Object.entries(texts.kinds).map(([value, label]) => ({ value, label }));
const SEARCHED = KINDS.filter(({ value }) => !value.endsWith("_re"));
const FIELDS = [
  { name: "as", label: texts.kind, options: KINDS },
  { name: "who", label: texts.who, hint: texts.whoHint, isRequired: true, autocomplete: "off" },
  { name: "reason", label: texts.reason },
  { name: "until", label: texts.until, hint: texts.untilHint, type: "datetime-local" },
];

/** @param {Record<string, string>} values */
const make = async ({ until, ...values }) => {
  const end = until ? { until: new Date(until).toISOString() } : {};
  try {
    await api.post("banned", { reason: "", ...values, ...end });
  } catch (error) {
    if (error instanceof ApiError && error.code === "ALREADY_EXISTS") error.message = texts.exists(values.who);
    throw error;
  }
};

/** @param {string} text As an expression that finds the text itself. */
const literally = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

export default function BansPage() {
  const [typed, setTyped] = useState({ kind: "clientid", who: "" });
  const [wanted, setWanted] = useState({ kind: "clientid", who: "", page: 1 });
  const query = wanted.who ? { [`like_${wanted.kind}`]: literally(wanted.who) } : {};
  const bans = useResource(JSON.stringify(wanted), (signal) =>
    api.get("banned", { ...query, page: wanted.page, limit: LIMIT }, signal));
  const { kind, about, show, close } = useDialog(bans);
  const mayWrite = may("clients:write");
  const search = submitting(() => setWanted({ ...typed, page: 1 }));
  /** @type {import("../parts/table.js").Column<Api.Ban>[]} */
  const columns = [
    { key: "who", title: texts.who, kind: "code", isHead: true },
    { key: "as", title: texts.kind, show: (row) => texts.kinds[/** @type {keyof typeof texts.kinds} */ (row.as)] },
    { key: "reason", title: texts.reason },
    { key: "by", title: texts.by },
    { key: "at", title: texts.at, show: (row) => time(row.at) },
    { key: "until", title: texts.until, show: (row) => (row.until === "infinity" ? texts.forever : time(row.until)) },
    { key: "do", title: texts.actions, kind: "actions", isShown: mayWrite, show: (row) => html`
      <button type="button" aria-label=${texts.liftNamed(row.who)} onClick=${() => show("lift", row)}>
        ${texts.lift}</button>` },
  ];
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${bans.reload}>${everywhere.refresh}</button>
      ${mayWrite && html`<button type="button" class="main" onClick=${() => show("add")}>${texts.add}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    <form class="filters" role="search" onSubmit=${search}>
      <${Field} label=${texts.kind} options=${SEARCHED} value=${typed.kind}
        onInput=${(/** @type {string} */ of) => setTyped({ ...typed, kind: of })} />
      <${Field} label=${texts.who} type="search" value=${typed.who}
        onInput=${(/** @type {string} */ who) => setTyped({ ...typed, who })} />
      <button type="submit">${texts.search}</button></form>
    <${Loaded} of=${bans}>${(/** @type {Api.PageOfBan} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${data}
        rowKey="as who" empty=${texts.none} isBusy=${bans.isLoading} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${wanted.page > 1}
        onMore=${() => setWanted({ ...wanted, page: wanted.page + 1 })}
        onBefore=${() => setWanted({ ...wanted, page: wanted.page - 1 })}>
          ${meta.count !== undefined && texts.found(count(meta.count))}<//>`}<//>
    ${kind === "add" && html`<${FormDialog} title=${texts.add} action=${texts.add} fields=${FIELDS}
      initial=${{ as: "clientid" }} act=${make} onClose=${close(texts.added)} />`}
    ${kind === "lift" && html`<${ConfirmDialog} text=${texts.liftText(about.who)}
      action=${texts.liftNamed(about.who)}
      act=${() => api.del(path("banned/{kind}/{who}", about.as, about.who))}
      onClose=${close(texts.lifted(about.who))} />`}`;
}
