// @ts-check
/** Users of MQTT clients in built-in databases: found, added with what they may do, changed, deleted. */
import { html, submitting, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { useResource } from "../kernel/resource.js";
import { link, navigate, replaceQuery } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, useDialog } from "../parts/dialog.js";
import { Field } from "../parts/field.js";
import { FormDialog } from "../parts/form_dialog.js";
import { Empty, Loaded, PageHead } from "../parts/notice.js";
import { Pager, Table } from "../parts/table.js";
import { loadIds } from "./access/adding.js";
import { NewUserDialog } from "./access/new_user.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/mqtt_users.js";

const LIMIT = 100;
const FIELDS = [
  { name: "password", label: texts.newPassword, hint: texts.keepPassword, type: "password",
    autocomplete: "new-password" },
  { name: "is_superuser", label: texts.superuser, hint: texts.superuserHint, type: "check" },
];

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function MqttUsersPage({ route }) {
  const chain = useResource("built-in", loadIds);
  const [turn, setTurn] = useState(0);
  const ids = chain.data ?? [];
  const id = ids.find((one) => one === route.query.of) ?? ids[0];
  const isAdding = route.query.add === "yes";
  const reload = () => {
    chain.reload();
    setTurn(turn + 1);
  };
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${reload}>${everywhere.refresh}</button>
      ${may("authentication:write") && html`<button type="button" class="main"
        onClick=${() => replaceQuery({ of: id, add: "yes" })}>${texts.add}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    ${ids.length > 1 && html`<${Field} label=${texts.of} options=${ids} value=${id}
      onInput=${(/** @type {string} */ of) => navigate(link("mqtt_users", { of }))} />`}
    <${Loaded} of=${chain}>${() => (id ? html`<${UsersTable} key=${id} id=${id} turn=${turn} />`
      : html`<${Empty}>${texts.noAuthenticator}<//>`)}<//>
    ${isAdding && chain.data && html`<${NewUserDialog} id=${id} onDone=${reload}
      onClose=${() => replaceQuery({ of: id })} />`}`;
}

/** @param {{ id: string, turn: number }} props */
const UsersTable = ({ id, turn }) => {
  const [typed, setTyped] = useState("");
  const [wanted, setWanted] = useState({ like: "", page: 1 });
  const users = useResource(JSON.stringify([id, wanted, turn]), (signal) =>
    api.get(path("authentication/{id}/users", id),
      { like_user_id: wanted.like, page: wanted.page, limit: LIMIT }, signal));
  const { kind, about, show, close } = useDialog(users);
  const search = submitting(() => setWanted({ like: typed, page: 1 }));
  const changeOf = (/** @type {string} */ user) => ({ password = "", is_superuser: isSuperuser = false }) =>
    api.put(path("authentication/{id}/users/{user_id}", id, user),
      { is_superuser: isSuperuser, ...(password ? { password } : {}) });
  /** @type {import("../parts/table.js").Column<Api.AuthenticatorUser>[]} */
  const columns = [
    { key: "user_id", title: texts.userId, kind: "code", isHead: true },
    { key: "is_superuser", title: texts.superuser, show: (row) =>
      (row.is_superuser ? html`<span class="badge warn">${texts.yes}</span>` : texts.no) },
    { key: "do", title: texts.actions, kind: "actions", isShown: may("authentication:write"), show: (row) => html`
      <button type="button" aria-label=${texts.changeNamed(row.user_id)} onClick=${() => show("change", row)}>
        ${texts.change}</button>
      <button type="button" class="danger" aria-label=${texts.removeNamed(row.user_id)}
        onClick=${() => show("delete", row)}>${everywhere.remove}</button>` },
  ];
  return html`
    <form class="filters" role="search" onSubmit=${search}>
      <${Field} label=${texts.userId} type="search" value=${typed} onInput=${setTyped} /><button type="submit">
        ${texts.search}</button></form>
    <${Loaded} of=${users}>${(/** @type {Api.PageOfAuthenticatorUser} */ { data, meta }) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${data}
        rowKey="user_id"
        empty=${texts.none} isBusy=${users.isLoading} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${wanted.page > 1}
        onMore=${() => setWanted({ ...wanted, page: wanted.page + 1 })}
        onBefore=${() => setWanted({ ...wanted, page: wanted.page - 1 })} />`}<//>
    ${kind === "change" && html`<${FormDialog} title=${texts.changeNamed(about.user_id)} action=${everywhere.save}
      fields=${FIELDS}
      initial=${{ is_superuser: about.is_superuser }} act=${changeOf(about.user_id)}
      onClose=${close(texts.changed(about.user_id))} />`}
    ${kind === "delete" && html`<${ConfirmDialog}
      text=${texts.removeText(about.user_id)} action=${texts.removeNamed(about.user_id)}
      act=${() => api.del(path("authentication/{id}/users/{user_id}", id, about.user_id))}
        onClose=${close(texts.removed(about.user_id))} />`}`;
};
