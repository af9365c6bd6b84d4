// @ts-check
/** Topics whose messages are counted: begun, set to 0, ended. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { count, rate, time } from "../../kernel/format.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { FormDialog } from "../../parts/form_dialog.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/topics.js";

/** @typedef {{ kind: "add" } | { kind: "end", topic: string }} Open */

const TOPIC = [{ name: "topic", label: texts.topic, isRequired: true, autocomplete: "off" }];

export const TopicMetrics = () => {
  const counted = useResource("metrics", (signal) => api.get("mqtt/topic_metrics", {}, signal));
  const [open, setOpen] = useState(/** @type {Open | null} */ (null));
  const reset = useAction(async (topic) => {
    await api.put("mqtt/topic_metrics", { action: "reset", topic });
    counted.reload();
  });
  const close = (/** @type {boolean} */ isDone) => {
    if (isDone && open?.kind === "end") tell(texts.ended(open.topic));
    if (isDone) counted.reload();
    setOpen(null);
  };
  return html`
    <div class="actions list-actions"><span class="quiet">${texts.metricsIntro}</span>
      <button type="button" onClick=${counted.reload}>${everywhere.refresh}</button>
      ${may("metrics:write") && html`<button type="button" class="main" onClick=${() => setOpen({ kind: "add" })}>
        ${texts.add}</button>`}</div>
    <${ErrorNote} error=${reset.error} />
    <${Loaded} of=${counted}>${(/** @type {Api.CountedTopicObject[]} */ rows) => html`
      <${Table} caption=${texts.tabs.metrics} columns=${columns(reset.run, setOpen)} rows=${rows}
        rowKey="topic" empty=${texts.noMetrics} />`}<//>
    ${open?.kind === "add" && html`<${FormDialog} title=${texts.add} action=${texts.add} fields=${TOPIC}
      act=${(/** @type {object} */ values) => api.post("mqtt/topic_metrics", values)} onClose=${close} />`}
    ${open?.kind === "end" && html`<${ConfirmDialog} title=${texts.endNamed(open.topic)}
      text=${texts.endText(open.topic)} action=${texts.end}
      act=${() => api.del(path("mqtt/topic_metrics/{topic}", open.topic))} onClose=${close} />`}`;
};

/**
 * @param {(topic: string) => void} reset
 * @param {(open: Open) => void} setOpen
 * @returns {import("../../parts/table.js").Column<Api.CountedTopicObject>[]}
 */
const columns = (reset, setOpen) => [
  { key: "topic", title: texts.topic, kind: "code", isHead: true },
  { key: "in", title: texts.in, kind: "number", show: (row) => count(row.metrics["messages.in.count"]) },
  { key: "out", title: texts.out, kind: "number", show: (row) => count(row.metrics["messages.out.count"]) },
  { key: "dropped", title: texts.dropped, kind: "number", show: (row) => count(row.metrics["messages.dropped.count"]) },
  { key: "rate", title: texts.rateIn, kind: "number", show: (row) => rate(row.metrics["messages.in.rate"]) },
  { key: "create_time", title: texts.since, show: (row) => time(row.reset_time ?? row.create_time) },
  { key: "do", title: texts.actions, kind: "actions", isShown: may("metrics:write"), show: (row) => html`
    <button type="button" aria-label=${texts.resetNamed(row.topic)} onClick=${() => reset(row.topic)}>
      ${texts.reset}</button>
    <button type="button" class="danger" aria-label=${texts.endNamed(row.topic)}
      onClick=${() => setOpen({ kind: "end", topic: row.topic })}>${texts.end}</button>` },
];
