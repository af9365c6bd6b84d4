// @ts-check
/** What is done with many clients: those that were chosen, or all that are found. */
import { html, useEffect, useRef, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import texts from "../../texts/en/clients.js";
import { FIELDS } from "./columns.js";
import { csvFile, keep } from "./csv.js";
import { PlanDialog } from "./plan.js";

/**
 * @param {{ wanted: Record<string, unknown>, chosen: string[], onDone: () => void, clear: () => void }} props
 *   `wanted` has the API's parameters of what is found. All that is found is offered where it was looked for: nobody
 *   is to end all connections by a slip.
 */
export const ManyActions = ({ wanted, chosen, onDone, clear }) => {
  const [verb, setVerb] = useState(/** @type {"kick" | "ban" | ""} */ (""));
  const close = (/** @type {boolean} */ isDone) => {
    setVerb("");
    if (isDone) onDone();
  };
  const isChosen = chosen.length > 0;
  const isOffered = may("clients:write") && (isChosen || Object.values(wanted).some(Boolean));
  return html`
    ${isChosen && html`<span role="status">${texts.chosen(chosen.length)}</span>
      <button type="button" class="plain" onClick=${clear}>${texts.clear}</button>`}
    ${isOffered && html`
      <button type="button" class="danger"
        onClick=${() => setVerb("kick")}>${isChosen ? texts.kickChosen : texts.kickFound}</button>
      <button type="button" class="danger"
        onClick=${() => setVerb("ban")}>${isChosen ? texts.banChosen : texts.banFound}</button>`}
    <${CsvButton} wanted=${wanted} />
    ${verb && html`<${PlanDialog} verb=${verb} query=${isChosen ? { clientid: chosen } : wanted} onClose=${close} />`}`;
};

/** @param {{ wanted: Record<string, unknown> }} props */
const CsvButton = ({ wanted }) => {
  const abort = useRef(/** @type {AbortController | null} */ (null));
  const [rows, setRows] = useState(0);
  const save = useAction(async () => {
    const { signal } = abort.current = new AbortController();
    setRows(0);
    try {
      const ask = (/** @type {object} */ part) =>
        api.get("heliograph/clients", { ...wanted, ...part, fields: FIELDS.join(",") }, signal);
      const made = await csvFile(ask, setRows);
      keep(made.file, texts.csvName);
      tell(made.isCut ? texts.csvCut(made.rows) : texts.csvDone(made.rows));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  });
  useEffect(() => () => abort.current?.abort(), []);
  return html`
    ${save.isRunning
      ? html`<span role="status">${texts.csvProgress(rows)}</span>
          <button type="button" onClick=${() => abort.current?.abort()}>${texts.csvStop}</button>`
      : html`<button type="button" onClick=${() => save.run()}>${texts.csv}</button>`}
    <${ErrorNote} error=${save.error} />`;
};
