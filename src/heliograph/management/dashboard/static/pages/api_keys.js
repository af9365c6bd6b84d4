// @ts-check
/** API keys: for programs; the secret of a new one is shown once. */
import { html, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { time } from "../kernel/format.js";
import { useResource } from "../kernel/resource.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, Dialog, useDialog } from "../parts/dialog.js";
import { FormDialog } from "../parts/form_dialog.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/api_keys.js";

const ROLES = ["administrator", "operator", "viewer", "publisher"];
const NEVER = "infinity";
const NAME = { name: "name", label: texts.name, hint: texts.nameHint, isRequired: true, autocomplete: "off" };
const SHARED = [
  { name: "role", label: texts.role, options: ROLES.map((value) => ({ value, label: texts.roles[value] })) },
  { name: "expired_at", label: texts.expires, type: "datetime-local", hint: texts.expiresHint },
  { name: "desc", label: texts.description },
  { name: "enable", label: texts.enabled, type: "check" },
];

/**
 * @typedef {import("../parts/form_dialog.js").Values} Values
 * @param {Values} values
 */
const sent = ({ expired_at: end, ...values }) =>
  ({ ...values, expired_at: end ? new Date(String(end)).toISOString() : NEVER });
/** @param {string} value */
const local = (value) => (value && value !== NEVER ? time(value).slice(0, 16).replace(" ", "T") : "");

export default function ApiKeysPage() {
  const keys = useResource("keys", (signal) => api.get("api_key", {}, signal));
  const { kind, about: key, show, close } = useDialog(keys);
  const mayChange = may("api_keys:write");
  const [made, setMade] = useState(/** @type {Api.NewApiKeyAnswer | null} */ (null));
  const add = async (/** @type {Values} */ values) => {
    setMade(await api.post("api_key", sent(values)));
    keys.reload();
  };
  /** @type {import("../parts/table.js").Column<Api.ApiKeyAnswer>[]} */
  const columns = [
    { key: "name", title: texts.name, isHead: true },
    { key: "api_key", title: texts.key, kind: "code" },
    { key: "role", title: texts.role },
    { key: "state", title: texts.state, show: stateOf },
    { key: "expired_at", title: texts.expires, show: (row) =>
      (row.expired_at === NEVER ? texts.never : time(row.expired_at)) },
    { key: "created_at", title: texts.created, show: (row) => time(row.created_at) },
    { key: "desc", title: texts.description },
    { key: "do", title: texts.actions, kind: "actions", isShown: mayChange, show: (row) => html`
      <button type="button" onClick=${() => show("change", row)} aria-label=${texts.changeNamed(row.name)}>
        ${texts.change}</button>
      <button type="button" class="danger" onClick=${() => show("delete", row)}
        aria-label=${texts.deleteNamed(row.name)}>${everywhere.remove}</button>` },
  ];
  return html`
    <${PageHead} title=${texts.title}>${mayChange && html`<button type="button" class="main"
      onClick=${() => show("add")}>${texts.add}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    <${Loaded} of=${keys}>${(/** @type {Api.ApiKeyAnswer[]} */ rows) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${rows}
        rowKey="name"
        empty=${texts.none} />`}<//>
    ${kind === "add" && html`<${FormDialog} title=${texts.add} action=${texts.add} fields=${[NAME, ...SHARED]}
      initial=${{ role: "viewer", enable: true }}
      act=${add} onClose=${() => show("")} />`}
    ${made && !kind && html`<${Made} made=${made} onClose=${() => setMade(null)} />`}
    ${kind === "change" && html`<${FormDialog} title=${texts.changeNamed(key.name)} action=${everywhere.save}
      fields=${SHARED}
      initial=${{ role: key.role, desc: key.desc, enable: key.enable, expired_at: local(key.expired_at) }}
      act=${(/** @type {Values} */ values) => api.put(path("api_key/{name}", key.name), sent(values))}
        onClose=${close(texts.changed(key.name))} />`}
    ${kind === "delete" && html`<${ConfirmDialog}
      text=${texts.deleteText(key.name)} action=${texts.deleteNamed(key.name)}
      act=${() => api.del(path("api_key/{name}", key.name))} onClose=${close(texts.deleted(key.name))} />`}`;
}

/** @param {Api.ApiKeyAnswer} key */
const stateOf = ({ enable, expired }) => {
  if (expired) return html`<span class="badge bad">${texts.expired}</span>`;
  return enable ? html`<span class="badge good">${texts.counts}</span>`
    : html`<span class="badge">${texts.disabled}</span>`;
};

/** @param {{ made: Api.NewApiKeyAnswer, onClose: () => void }} props */
const Made = ({ made, onClose }) => html`
  <${Dialog} title=${texts.made(made.name)} onClose=${onClose}>
    <p>${texts.once}</p>
    <dl class="facts"><dt>${texts.key}</dt><dd><code>${made.api_key}</code></dd><dt>${texts.secret}</dt><dd><code>
      ${made.api_secret}</code></dd></dl>
    <footer><button type="button" class="main" onClick=${onClose}>${texts.kept}</button></footer>
  <//>`;
