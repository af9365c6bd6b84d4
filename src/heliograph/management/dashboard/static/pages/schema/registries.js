// @ts-check
/** Registries of other systems: listed, added, forgotten. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ActDialog, ConfirmDialog, useDialog } from "../../parts/dialog.js";
import { CheckField, Field } from "../../parts/field.js";
import { Loaded } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import schemas from "../../texts/en/schemas.js";

const texts = schemas.registries;

/** @typedef {Api.RegistryShown & { name: string }} Registry */

export const Registries = () => {
  const all = useResource("registries", async (signal) =>
    Object.entries(await api.get("schema_registry_external", {}, signal)).map(([name, one]) => ({ ...one, name })));
  const dialog = useDialog(all);
  const mayChange = may("schemas:write");
  /** @type {import("../../parts/table.js").Column<Registry>[]} */
  const columns = [
    { key: "name", title: schemas.name, kind: "code", isHead: true },
    { key: "url", title: texts.url, kind: "code" },
    { key: "auth", title: texts.username, show: ({ auth }) => (auth === "none" ? "" : auth.username) },
    { key: "more", title: schemas.more, kind: "actions", isShown: mayChange, show: (row) => html`
      <button type="button" class="danger" aria-label=${schemas.removeAction(row.name)}
        onClick=${() => dialog.show("delete", row)}>${schemas.remove}</button>` },
  ];
  return html`
    <section>
      <header class="page-head"><h2>${texts.title}</h2>
        ${mayChange && html`<button type="button" onClick=${() => dialog.show("add")}>${texts.add}</button>`}</header>
      <${Loaded} of=${all}>${(/** @type {Registry[]} */ rows) => html`
        <${Table} caption=${texts.title} columns=${columns} rows=${rows} rowKey="name" empty=${texts.none} />`}<//>
      ${dialog.kind === "add" && html`<${AddDialog} onClose=${dialog.close(texts.added)} />`}
      ${dialog.kind === "delete" && html`<${ConfirmDialog} title=${texts.removeTitle}
        text=${texts.removeText(dialog.about.name)} action=${schemas.removeAction(dialog.about.name)}
        act=${() => api.del(path("schema_registry_external/registry/{name}", dialog.about.name))}
          onClose=${dialog.close(schemas.removed(dialog.about.name))} />`}
    </section>`;
};

/** @param {{ onClose: (isDone: boolean) => void }} props */
const AddDialog = ({ onClose }) => {
  const [{ name, url, hasLogin, username, password }, setDraft] = useState({ name: "", url: "", hasLogin: false,
    username: "", password: "" });
  const set = (/** @type {string} */ field) => (/** @type {unknown} */ value) =>
    setDraft((old) => ({ ...old, [field]: value }));
  const act = () => api.post("schema_registry_external",
    { name, url, auth: hasLogin ? { mechanism: "basic", username, password } : "none" });
  return html`
    <${ActDialog} title=${texts.addTitle} action=${texts.add} act=${act} onClose=${onClose} class="stack">${() => html`
      <${Field} label=${schemas.name} value=${name} onInput=${set("name")} isRequired autocomplete="off" />
      <${Field} label=${texts.url} value=${url} onInput=${set("url")} isRequired placeholder="http://127.0.0.1:8081" />
      <${CheckField} label=${texts.login} value=${hasLogin} onInput=${set("hasLogin")} />
      ${hasLogin && html`<${Field} label=${texts.username} value=${username} onInput=${set("username")} isRequired
        autocomplete="off" />
        <${Field} label=${texts.password} value=${password} onInput=${set("password")} type="password" isRequired
          autocomplete="new-password" />`}`}<//>`;
};
