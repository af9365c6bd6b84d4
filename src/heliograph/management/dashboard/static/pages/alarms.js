// @ts-check
/** Alarms: what is wrong for longer than a moment, and what was. */
import { html, useEffect, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { duration, time } from "../kernel/format.js";
import { useLive } from "../kernel/live.js";
import { useResource } from "../kernel/resource.js";
import { may } from "../kernel/session.js";
import { AlarmList } from "../parts/alarm_list.js";
import { ConfirmDialog } from "../parts/dialog.js";
import { Loaded, Loading, PageHead, tell } from "../parts/notice.js";
import { Pager, Table } from "../parts/table.js";
import texts from "../texts/en/alarms.js";

const ROWS = 50;

export default function AlarmsPage() {
  const now = useLive("alarms");
  const [page, setPage] = useState(1);
  const ended = useResource(`ended ${page}`, (signal) => api.get("alarms", { activated: false, page, limit: ROWS },
    signal));
  const [asked, setAsked] = useState(/** @type {string | null} */ (null));
  const open = now ? now.alarms.map((alarm) => alarm.name).join("|") : "";
  useEffect(() => { if (now) ended.reload(); }, [open]); // what is no longer open stands in the history
  const close = (/** @type {boolean} */ isDone) => {
    if (isDone) tell(asked ? texts.ended(asked) : texts.cleared);
    setAsked(null);
    ended.reload();
  };
  const end = (/** @type {Api.OpenAlarm} */ alarm) => may("alarms:write")
    && html`<button type="button" aria-label=${texts.endNamed(alarm.name)} onClick=${() => setAsked(alarm.name)}>
      ${texts.end}</button>`;
  return html`
    <${PageHead} title=${texts.title} />
    <section class="card"><h2>${texts.open}</h2>
      ${now ? html`<${AlarmList} alarms=${now.alarms} act=${end} />` : html`<${Loading} />`}</section>
    <section><header class="page-head"><h2>${texts.history}</h2>
        ${may("alarms:write") && !!ended.data?.data.length
          && html`<button type="button" onClick=${() => setAsked("")}>${texts.clear}</button>`}</header>
      <${Loaded} of=${ended}>${(/** @type {Api.PageOfAlarmShown} */ data) => html`
        <${Table} caption=${texts.history} columns=${COLUMNS} rows=${data.data} empty=${texts.noHistory}
          isBusy=${ended.isLoading}
          rowKey="node name activate_at deactivate_at" />
        ${(page > 1 || data.meta.hasnext) && html`<${Pager} hasMore=${data.meta.hasnext} hasBefore=${page > 1}
          onMore=${() => setPage(page + 1)} onBefore=${() => setPage(page - 1)} />`}`}<//>
    </section>
    ${asked !== null && html`<${Asked} name=${asked} onClose=${close} />`}`;
}

/**
 * Asks before an alarm is ended, or all that ended are forgotten.
 * @param {{ name: string, onClose: (isDone: boolean) => void }} props
 */
const Asked = ({ name, onClose }) => name
  ? html`<${ConfirmDialog} title=${texts.endTitle(name)} text=${texts.endText} action=${texts.endNamed(name)}
    onClose=${onClose}
      act=${() => api.post("alarms/force_deactivate", { name })} />`
  : html`<${ConfirmDialog} title=${texts.clearTitle} text=${texts.clearText} action=${texts.clear} onClose=${onClose}
    act=${() => api.del("alarms")} />`;

/** @type {import("../parts/table.js").Column<Api.AlarmShown>[]} */
const COLUMNS = [
  { key: "name", title: texts.name, isHead: true, kind: "code" },
  { key: "severity", title: texts.severity, show: (row) => texts.severities[row.severity] ?? row.severity },
  { key: "message", title: texts.message },
  { key: "activate_at", title: texts.began, show: (row) => html`<span class="nowrap">${time(row.activate_at)}</span>` },
  { key: "deactivate_at", title: texts.endedAt, show: (row) =>
    html`<span class="nowrap">${time(row.deactivate_at)}</span>` },
  { key: "duration", title: texts.lasted, show: (row) => html`<span class="nowrap">
    ${duration(row.duration / 1000)}</span>` },
  { key: "node", title: texts.node },
];
