// @ts-check
/** Where clients connect: state, connections, certificates; begun, changed, stopped and deleted. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { count, time } from "../kernel/format.js";
import { useAction, useResource } from "../kernel/resource.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, useDialog } from "../parts/dialog.js";
import { ErrorNote, Loaded, PageHead, tell } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import { ListenerDialog } from "./listeners/form.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/listeners.js";

const DAY_MS = 86_400_000;
const SOON_DAYS = 30;

/** @param {Api.ListenerSummary} row */
const stateOf = ({ enable, status }) => (status.running ? html`<span class="badge good">${texts.accepting}</span>`
  : html`<span class="badge">${enable ? texts.stopped : texts.disabled}</span>`);

/** @param {Api.ListenerSummary} row */
const certificateOf = ({ type, certificate_expires_at: until }) => {
  if (type === "tcp" || type === "ws") return html`<span class="quiet">${texts.noTls}</span>`;
  if (!until) return texts.unknown;
  const days = Math.floor((Date.parse(until) - Date.now()) / DAY_MS);
  const sign = days < 0 ? "bad" : days < SOON_DAYS ? "warn" : "good";
  return html`<span class=${`badge ${sign}`}>${days < 0 ? texts.expired
    : texts.expires(time(until).slice(0, 10), days)}</span>`;
};

export default function ListenersPage() {
  const list = useResource("listeners", (signal) => api.get("listeners", {}, signal));
  const { kind, about, show, close } = useDialog(list);
  const start = useAction(async (/** @type {string} */ id) => {
    await api.post(path("listeners/{id}/start", id));
    tell(texts.started(id));
    list.reload();
  });
  const mayWrite = may("listeners:write");
  /** @type {import("../parts/table.js").Column<Api.ListenerSummary>[]} */
  const columns = [
    { key: "id", title: texts.id, kind: "code", isHead: true },
    { key: "state", title: texts.state, show: stateOf },
    { key: "address", title: texts.address, kind: "code", show: (row) => row.address ?? String(row.bind) },
    { key: "connections", title: texts.connections, kind: "number", show: ({ status }) => {
      const most = status.max_connections;
      return typeof most === "number" ? texts.ofMost(count(status.current_connections), count(most))
        : count(status.current_connections);
    } },
    { key: "certificate", title: texts.certificate, show: certificateOf },
    { key: "do", title: texts.actions, kind: "actions", isShown: mayWrite, show: (row) => html`
      ${row.status.running
        ? html`<button type="button" aria-label=${texts.named.stop(row.id)} onClick=${() => show("stop", row)}>
          ${texts.stop}</button>`
        : html`<button type="button" aria-label=${texts.named.start(row.id)} disabled=${start.isRunning}
          onClick=${() => start.run(row.id)}>${texts.start}</button>`}
      <button type="button" aria-label=${texts.named.change(row.id)} onClick=${() => show("change", row)}>
        ${texts.change}</button>
      <button type="button" class="danger" aria-label=${texts.named.remove(row.id)}
        onClick=${() => show("delete", row)}>${everywhere.remove}</button>` },
  ];
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${list.reload}>${everywhere.refresh}</button>
      ${mayWrite && html`<button type="button" class="main" onClick=${() => show("add")}>${texts.add}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    <${ErrorNote} error=${start.error} />
    <${Loaded} of=${list}>${(/** @type {Api.ListenerSummary[]} */ rows) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${rows}
        rowKey="id"
        isBusy=${list.isLoading} />`}<//>
    ${kind === "stop" && html`<${ConfirmDialog} action=${texts.named.stop(about.id)}
      text=${texts.stopText(about.id, count(about.status.current_connections))}
      act=${() => api.post(path("listeners/{id}/stop", about.id))} onClose=${close(texts.ended(about.id))} />`}
    ${kind === "delete" && html`<${ConfirmDialog} action=${texts.named.remove(about.id)} name=${about.id} typed
      text=${texts.removeText(about.id, count(about.status.current_connections))}
      act=${() => api.del(path("listeners/{id}", about.id))} onClose=${close(texts.removed(about.id))} />`}
    ${kind === "change" && html`<${ListenerDialog} id=${about.id} onClose=${close(texts.saved(about.id))} />`}
    ${kind === "add" && html`<${ListenerDialog} onClose=${close(texts.made)} />`}`;
}
