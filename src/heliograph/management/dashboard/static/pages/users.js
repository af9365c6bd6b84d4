// @ts-check
/** Users who log in to the dashboard and the API, and their roles. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { useResource } from "../kernel/resource.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, useDialog } from "../parts/dialog.js";
import { FormDialog } from "../parts/form_dialog.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/users.js";

const ROLES = ["administrator", "operator", "viewer"].map((value) => ({ value, label: texts.roles[value] }));
const NAME = { name: "username", label: texts.username, hint: texts.usernameHint, isRequired: true,
  autocomplete: "off" };
const PASSWORD = { name: "password", label: texts.password, hint: texts.passwordHint, isRequired: true,
  type: "password", autocomplete: "new-password" };
const ROLE = { name: "role", label: texts.role, options: ROLES };
const DESCRIPTION = { name: "description", label: texts.description };

export default function UsersPage() {
  const users = useResource("users", (signal) => api.get("users", {}, signal));
  const { kind, about: user, show, close } = useDialog(users);
  const mayChange = may("users:write");
  /** @type {import("../parts/table.js").Column<Api.UserAnswer>[]} */
  const columns = [
    { key: "username", title: texts.username, isHead: true },
    { key: "role", title: texts.role },
    { key: "description", title: texts.description },
    { key: "mfa", title: texts.factor, show: ({ mfa }) => (mfa === "none" ? texts.noFactor : texts.hasFactor) },
    { key: "backend", title: texts.backend, show: ({ backend }) => (backend === "local" ? texts.local : texts.sso) },
    { key: "do", title: texts.actions, kind: "actions", isShown: mayChange, show: (row) => html`
      <button type="button" onClick=${() => show("change", row)} aria-label=${texts.changeNamed(row.username)}>
        ${texts.change}</button>
      ${row.mfa !== "none" && html`<button type="button" onClick=${() => show("factor", row)}>
        ${texts.takeFactor}</button>`}
      <button type="button" class="danger" onClick=${() => show("delete", row)}
        aria-label=${texts.deleteNamed(row.username)}>${everywhere.remove}</button>` },
  ];
  return html`
    <${PageHead} title=${texts.title}>${mayChange && html`<button type="button" class="main"
      onClick=${() => show("add")}>${texts.add}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    <${Loaded} of=${users}>${(/** @type {Api.UserAnswer[]} */ rows) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${rows}
        rowKey="username" empty=${texts.none} />`}<//>
    ${kind === "add" && html`<${FormDialog} title=${texts.add} action=${texts.add}
      fields=${[NAME, PASSWORD, ROLE, DESCRIPTION]} initial=${{ role: "viewer" }}
      act=${(/** @type {object} */ values) => api.post("users", values)} onClose=${close(texts.added)} />`}
    ${kind === "change" && html`<${FormDialog} title=${texts.changeNamed(user.username)} action=${everywhere.save}
      fields=${[ROLE, DESCRIPTION]}
      initial=${{ role: user.role, description: user.description }} intro=${texts.loginsEnd}
      act=${(/** @type {object} */ values) => api.put(path("users/{username}", user.username), values)}
        onClose=${close(texts.changed(user.username))} />`}
    ${kind === "factor" && html`<${ConfirmDialog} text=${texts.takeFactorOf(user.username)}
      action=${texts.takeFactor} name=${user.username}
      act=${() => api.del(path("heliograph/users/{username}/second_factor", user.username))}
        onClose=${close(texts.changed(user.username))} />`}
    ${kind === "delete" && html`<${ConfirmDialog}
      text=${texts.deleteText(user.username)} action=${texts.deleteNamed(user.username)}
      act=${() => api.del(path("users/{username}", user.username))}
      onClose=${close(texts.deleted(user.username))} />`}`;
}
