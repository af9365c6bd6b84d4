// @ts-check
/** The traces that are recorded. */
import { html, useState } from "../../kernel/html.js";
import { api, path, urlOf } from "../../kernel/api.js";
import { bytes, cut, time } from "../../kernel/format.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import common from "../../texts/en/everywhere.js";
import texts from "../../texts/en/traces.js";
import { TraceDialog } from "./begin.js";

/** @param {Api.TraceShown} trace */
const aboutOf = (trace) => `${texts.values[trace.type]} ${cut(trace[trace.type] ?? "", 80)}`;

/** @param {{ trace: Api.TraceShown }} props */
const TraceState = ({ trace: { status } }) => html`
  <span class=${`badge ${status === "running" ? "good" : ""}`}>${texts.states[status] ?? status}</span>`;

/** @param {string} name */
export const downloadOf = (name) => urlOf(path("trace/{name}/download", name));

export const TraceList = () => {
  const list = useResource("traces", (signal) => api.get("trace", {}, signal));
  const [asked, setAsked] = useState(/** @type {{ begin?: boolean, remove?: string }} */ ({}));
  const stop = useAction(async (/** @type {string} */ name) => {
    await api.put(path("trace/{name}/stop", name));
    tell(texts.stopped(name));
    list.reload();
  });
  const close = (/** @type {boolean} */ isDone) => {
    setAsked({});
    if (isDone) list.reload();
  };
  const remove = async () => {
    const name = asked.remove ?? "";
    await api.del(path("trace/{name}", name));
    tell(texts.removed(name));
  };
  const columns = columnsOf((name) => stop.run(name), (name) => setAsked({ remove: name }));
  return html`
    <p class="actions">
      ${may("traces:write") && html`
        <button type="button" class="main" onClick=${() => setAsked({ begin: true })}>${texts.begin}</button>`}
      <button type="button" onClick=${list.reload}>${common.refresh}</button>
    </p>
    <${ErrorNote} error=${stop.error} />
    <${Loaded} of=${list}>${(/** @type {Api.TraceShown[]} */ rows) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${rows}
        rowKey="name"
        empty=${texts.none} isBusy=${list.isLoading} />`}<//>
    ${asked.begin && html`<${TraceDialog} onClose=${close} />`}
    ${asked.remove && html`<${ConfirmDialog} title=${texts.removeTitle} text=${texts.removeText(asked.remove)}
      action=${texts.removeAct(asked.remove)} act=${remove} onClose=${close} />`}`;
};

/**
 * @param {(name: string) => void} onStop
 * @param {(name: string) => void} onRemove
 * @returns {import("../../parts/table.js").Column<Api.TraceShown>[]}
 */
const columnsOf = (onStop, onRemove) => [
  { key: "name", title: texts.name, isHead: true, show: ({ name }) => html`
    <a href=${link("traces", name)}>${name}</a>` },
  { key: "about", title: texts.subject, show: aboutOf },
  { key: "status", title: texts.state, show: (trace) => html`<${TraceState} trace=${trace} />` },
  { key: "start_at", title: texts.begins, kind: "time", show: (trace) => time(trace.start_at) },
  { key: "end_at", title: texts.ends, kind: "time", show: (trace) => time(trace.end_at) },
  { key: "size", title: texts.size, kind: "number", show: (trace) => bytes(sizeOf(trace)) },
  { key: "actions", title: texts.actions, kind: "actions", show: ({ name, enable }) => html`
    ${enable && may("traces:write") && html`
      <button type="button" aria-label=${texts.stopOf(name)} onClick=${() => onStop(name)}>${texts.stop}</button>`}
    <a class="button" href=${downloadOf(name)} download=${`${name}.zip`}
      aria-label=${texts.downloadOf(name)}>${texts.download}</a>
    ${may("traces:write") && html`
      <button type="button" class="danger" aria-label=${texts.removeAct(name)}
        onClick=${() => onRemove(name)}>${texts.remove}</button>`}` },
];

/** @param {Api.TraceShown} trace */
const sizeOf = ({ log_size: sizes }) =>
  Object.values(sizes).reduce((/** @type {number} */ sum, one) => sum + Number(one), 0);
