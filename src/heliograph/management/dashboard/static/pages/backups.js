// @ts-check
/** Backups of the node: which there are, when the next one is due, how far one is; one is made or verified. */
import { html, useEffect, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { bytes, duration, NONE, time } from "../kernel/format.js";
import { useAction, useResource } from "../kernel/resource.js";
import { link } from "../kernel/router.js";
import { may, useSession } from "../kernel/session.js";
import { Facts } from "../parts/facts.js";
import { ErrorNote, Loaded, PageHead, tell } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/backups.js";

const LOOK_MS = 1000;

/** @param {Api.BackupsNow} now @returns {[string, unknown][]} */
const scheduleOf = (now) => [
  [texts.place, now.place ? html`<code>${now.place}</code>` : texts.noPlace],
  [texts.every, now.enable ? duration(now.every_s) : texts.notByItself],
  [texts.keep, now.keep === null ? texts.keepAll : texts.newest(now.keep)],
  [texts.last, now.last_at ? html`${time(now.last_at)} <code>${now.last_place}</code>` : texts.never],
  [texts.next, time(now.next_at)],
];

/** @param {Api.Backup} row */
const kindOf = ({ copied_bytes: copied, bytes: all }) => {
  if (copied === null) return NONE;
  return copied === all ? texts.full : texts.incremental;
};

/** @param {Api.Backup} row @param {boolean} isVerified */
const stateOf = ({ problems }, isVerified) => (problems.length === 0
  ? html`<span class="badge good">${isVerified ? texts.verified : texts.complete}</span>`
  : html`<details><summary><span class="badge bad">${texts.damaged(problems.length)}</span></summary><ul>
    ${problems.map((text) => html`<li key=${text}>${text}</li>`)}</ul></details>`);

export default function BackupsPage() {
  const node = useSession().user?.node ?? "";
  const place = path("heliograph/nodes/{node}/backups", node);
  const list = useResource(`backups ${node}`, (signal) => api.get(place, {}, signal));
  const now = useResource(`now ${node}`, (signal) =>
    api.get(path("heliograph/nodes/{node}/backups/now", node), {}, signal));
  const [verified, setVerified] = useState(/** @type {Record<string, Api.Backup>} */ ({}));
  const reload = () => {
    list.reload();
    now.reload();
  };
  const make = useAction(async () => {
    const { id } = await api.post(place);
    tell(texts.made(id));
  });
  const verify = useAction(async (/** @type {string} */ id) => {
    const row = await api.post(path("heliograph/nodes/{node}/backups/{id}/verify", node, id));
    setVerified((/** @type {Record<string, Api.Backup>} */ old) => ({ ...old, [id]: row }));
  });
  const isRunning = make.isRunning || (now.data?.is_running ?? false);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(now.reload, LOOK_MS);
    return () => { // it is made, or failed
      clearInterval(timer);
      reload();
    };
  }, [isRunning]);
  const mayWrite = may("data:write");
  /** @type {import("../parts/table.js").Column<Api.Backup>[]} */
  const columns = [
    { key: "id", title: texts.id, kind: "code", isHead: true },
    { key: "at", title: texts.at, show: (row) => time(row.at) },
    { key: "bytes", title: texts.size, kind: "number", show: (row) => bytes(row.bytes) },
    { key: "kind", title: texts.kind, show: kindOf },
    { key: "copied_bytes", title: texts.copied, kind: "number", show: (row) => bytes(row.copied_bytes) },
    { key: "version", title: texts.version },
    { key: "secrets", title: texts.secrets, show: (row) => (row.secrets ? texts.yes : texts.no) },
    { key: "state", title: texts.state, show: (row) => stateOf(verified[row.id] ?? row, row.id in verified) },
    { key: "do", title: texts.actions, kind: "actions", isShown: mayWrite, show: (row) => html`
      <button type="button" aria-label=${texts.verifyNamed(row.id)} disabled=${verify.isRunning}
        onClick=${() => verify.run(row.id)}>${texts.verify}</button>` },
  ];
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${reload}>${everywhere.refresh}</button>
      ${mayWrite && html`<button type="button" class="main" disabled=${isRunning || !now.data?.place}
        onClick=${() => make.run()}>${texts.make}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    <${ErrorNote} error=${make.error ?? verify.error} />
    <${Loaded} of=${now}>${(/** @type {Api.BackupsNow} */ data) => html`
      ${isRunning && html`<${Progress} now=${data} />`}
      ${data.problem && !isRunning && html`<div class="note error" role="alert"><p>${texts.failed} ${data.problem}</p>
        <p><a href=${link("alarms")}>${texts.seeAlarms}</a></p></div>`}
      <${Facts} title=${texts.schedule} rows=${scheduleOf(data)} />`}<//>
    <${Loaded} of=${list}>${(/** @type {Api.Backups} */ { data }) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${[...data].reverse()} rowKey="id" empty=${texts.none}
        isBusy=${list.isLoading} />`}<//>`;
}

/** @param {{ now: Api.BackupsNow }} props */
const Progress = ({ now: { done_bytes: done, total_bytes: total } }) => html`
  <section class="card replay-progress" aria-label=${texts.running}>
    <progress max="1" value=${total ? done / total : 0} aria-label=${texts.running}></progress>
    <p role="status">${texts.running}. ${total ? texts.soFar(bytes(done), bytes(total)) : texts.begins}</p>
  </section>`;
