// @ts-check
/** Starts a rule of the pipeline from the beginning of the stretch on, after a question. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { time } from "../../kernel/format.js";
import { own } from "../../kernel/own.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import texts from "../../texts/en/time_machine.js";

/** @param {{ replay: Api.RuleReplayShown, onStarted: () => void }} props */
export const Start = ({ replay, onStarted }) => {
  const [isAsking, setAsking] = useState(false);
  const { rule, start } = replay;
  if (!rule) return null;
  if (rule.of !== "pipeline" || rule.is_edited) {
    const why = rule.of === "pipeline" ? "edited" : /** @type {"broker" | "sql"} */ (rule.of);
    return html`<p class="quiet">${texts.notStarted[why]}</p>`;
  }
  const since = replay.from === "earliest" ? texts.earliest : time(replay.from);
  const close = (/** @type {boolean} */ isDone) => {
    setAsking(false);
    if (isDone) onStarted();
  };
  return html`
    <p role="status">${start && own(texts.startStates, start.state)?.(rule.name, start.message ?? "")}</p>
    ${may("pipeline:write") && html`<button type="button" disabled=${start?.state === "running"}
      onClick=${() => setAsking(true)}>${texts.start}</button>`}
    ${isAsking && html`<${ConfirmDialog} title=${texts.startTitle} text=${texts.startText(rule.name, since)}
      action=${texts.startAction(rule.name)} onClose=${close}
      act=${() => api.post(path("heliograph/rule_replays/{id}/start", replay.id))} />`}`;
};
