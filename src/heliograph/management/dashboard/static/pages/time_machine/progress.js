// @ts-check
/** How far a replay is, and the way to end it. */
import { html } from "../../kernel/html.js";
import { count } from "../../kernel/format.js";
import texts from "../../texts/en/time_machine.js";

/** @param {{ progress: Api.RuleReplayProgress | undefined, onCancel: () => void }} props */
export const Progress = ({ progress, onCancel }) => {
  const share = progress?.share ?? 0;
  const { messages, rows, failures } = progress ?? {};
  const counts = messages === undefined ? "" : texts.soFar(count(messages), count(rows), count(failures));
  return html`
    <section class="card replay-progress" aria-label=${texts.running}>
      <progress max="1" value=${share} aria-label=${texts.running}></progress>
      <p role="status">${texts.reading(`${Math.round(share * 100)} %`, counts)}</p>
      <button type="button" onClick=${onCancel}>${texts.cancel}</button>
    </section>`;
};
