// @ts-check
/** Replays of stored messages: how far each is; those that run are followed while the page is open. */
import { html, useEffect, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { readEvents } from "../../kernel/events.js";
import { cut, time } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import texts from "../../texts/en/history.js";

const KINDS = /** @type {Record<string, string>} */ ({ running: "", finished: "good", failed: "bad",
  cancelled: "warn" });

export const Replays = () => {
  const list = useResource("replays", (signal) => api.get("heliograph/message_replays", {}, signal));
  const [asked, setAsked] = useState(/** @type {Api.MessageReplayShown | null} */ (null));
  const followed = useFollowed(list.data ?? []);
  const rows = (list.data ?? []).map((one) => followed[one.id] ?? one).reverse();
  return html`
    <${Loaded} of=${list}>${() => html`
      <${Table} caption=${texts.replays} columns=${columns(setAsked)} rows=${rows}
        rowKey="id" empty=${texts.noReplays} />`}<//>
    ${asked && html`<${ConfirmDialog} text=${texts.stopText} action=${titleOf(asked)}
      act=${() => api.del(path("heliograph/message_replays/{id}", asked.id))}
      onClose=${(/** @type {boolean} */ isDone) => {
        setAsked(null);
        if (!isDone) return;
        tell(texts.stopped);
        list.reload();
      }} />`}`;
};

/** @param {Api.MessageReplayShown} row */
const titleOf = (row) => (row.state === "running" ? texts.stopNamed(row.target) : texts.forgetNamed(row.target));

/**
 * The newest states of those that run: at most two do at once.
 * @param {Api.MessageReplayShown[]} rows
 * @returns {Record<string, Api.MessageReplayShown>}
 */
const useFollowed = (rows) => {
  const [states, setStates] = useState(/** @type {Record<string, Api.MessageReplayShown>} */ ({}));
  const running = rows.filter(({ state }) => state === "running").map(({ id }) => id).join(",");
  useEffect(() => {
    const abort = new AbortController();
    for (const id of running.split(",").filter(Boolean)) {
      const take = (/** @type {Api.MessageReplayShown} */ now) => setStates((old) => ({ ...old, [id]: now }));
      readEvents(path("heliograph/message_replays/{id}/events", id), {}, { progress: take, end: take }, abort.signal)
        .catch(() => {});
    }
    return () => abort.abort();
  }, [running]);
  return states;
};

/**
 * @param {(row: Api.MessageReplayShown) => void} setAsked
 * @returns {import("../../parts/table.js").Column<Api.MessageReplayShown>[]}
 */
const columns = (setAsked) => [
  { key: "topic", title: texts.source, kind: "code", isHead: true, show: (row) =>
    html`${row.topic}<br /><small class="nowrap">${texts.between(row.start && time(row.start),
    time(row.end))}</small>` },
  { key: "target", title: texts.to, kind: "code" },
  { key: "state", title: texts.state, show: (row) => html`<span class=${`badge ${KINDS[row.state]}`}>
    ${texts.states[row.state]}</span>` },
  { key: "progress", title: texts.progress, show: (row) => html`
    <progress max="1" value=${row.progress.share} aria-label=${texts.progress}></progress><br />
      ${texts.published(row.progress)}
    ${[row.error?.message, ...(row.progress.reasons ?? [])].filter(Boolean).map((said) =>
      html`<p class="wrong" key=${said}>${said}</p>`)}` },
  { key: "rate", title: texts.rateTitle, kind: "number" },
  { key: "owner", title: texts.owner, show: (row) => html`<span title=${row.owner}>${cut(row.owner, 20)}</span>` },
  { key: "do", title: texts.actions, kind: "actions", isShown: may("publish"), show: (row) => html`
    <button type="button" class="danger" aria-label=${titleOf(row)} onClick=${() => setAsked(row)}>
      ${row.state === "running" ? texts.stop : texts.forget}</button>` },
];
