// @ts-check
/** Dialogs: of the browser, so that focus, Esc and what lies behind are as people expect. */
import { html, submitting, useEffect, useId, useRef, useState } from "../kernel/html.js";
import { useAction } from "../kernel/resource.js";
import { ErrorNote, tell } from "./notice.js";
import texts from "../texts/en/everywhere.js";

/**
 * @param {{ title: string, onClose: () => void, children?: unknown, canClose?: boolean, isWide?: boolean }} props
 */
export const Dialog = ({ title, onClose, children, canClose = true, isWide = false }) => {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (canClose) onClose();
  };
  return html`
    <dialog ref=${dialog} class=${isWide ? "wide" : ""} aria-labelledby=${id} onCancel=${cancel}>
      <header><h2 id=${id}>${title}</h2>
        ${canClose && html`<button type="button" class="plain" aria-label=${texts.close} onClick=${onClose}>✕</button>`}
      </header>
      ${children}
    </dialog>`;
};

/** @typedef {import("../kernel/resource.js").Failure} Failure */

/**
 * A form in a dialog, which closes when what it does has succeeded.
 * @param {{ title: string, action: string, act: () => Promise<unknown>, onClose: (isDone: boolean) => void,
 *   canAct?: boolean, isDangerous?: boolean, isWide?: boolean, class?: string,
 *   isShown?: (error: Failure) => boolean, children: (error: Failure | null) => unknown }} props
 *   `children`: what stands above the buttons; `isShown`: whether an error stands nowhere there, but below.
 */
export const ActDialog = ({ title, action, act, onClose, canAct = true, isDangerous = false, isWide = false,
  class: look, isShown = () => true, children }) => {
  const { run, isRunning, error } = useAction(act);
  const submit = submitting(async () => {
    if (await run()) onClose(true);
  });
  return html`
    <${Dialog} title=${title} onClose=${() => onClose(false)} isWide=${isWide}>
      <form class=${look} onSubmit=${submit}>
        ${children(error)}
        <${ErrorNote} error=${error && isShown(error) ? error : null} />
        <footer>
          <button type="button" onClick=${() => onClose(false)}>${texts.cancel}</button>
          <button type="submit" class=${isDangerous ? "danger" : "main"} disabled=${isRunning || !canAct}>
            ${action}</button>
        </footer>
      </form>
    <//>`;
};

/**
 * Asks before something dangerous, with the name of the thing; where `typed` is set, the user types the name.
 * @param {{ title?: string, text: unknown, action: string, name?: string, typed?: boolean, act: () => Promise<unknown>,
 *   onClose: (isDone: boolean) => void }} props
 */
export const ConfirmDialog = ({ action, title = action, text, name = "", typed = false, act, onClose }) => {
  const [said, setSaid] = useState("");
  return html`
    <${ActDialog} title=${title} action=${action} act=${act} onClose=${onClose} isDangerous
      canAct=${!typed || said === name}>${() => html`
      <p>${text}</p>
      ${typed && html`<label class="field"><span>${texts.typeName(name)}</span>
        <input value=${said}
          onInput=${(/** @type {{ target: HTMLInputElement }} */ event) => setSaid(event.target.value)}
          autocomplete="off" /></label>`}`}<//>`;
};

/**
 * What a dialog may be for: nothing is open, or it is about a row or about none yet.
 * @typedef {"" | "add"} Plain
 * @typedef {"change" | "delete" | "factor" | "lift" | "stop"} OfRow
 */

/** @template Row @typedef {{ kind: Plain, about?: undefined } | { kind: OfRow, about: Row }} Open */

/**
 * Which dialog of a page is open, and about what; a dialog that has done its work tells so, and what it changed is
 * loaded anew.
 * @template Row
 * @param {{ data: Row[] | { data: Row[] } | undefined, reload: () => void }} of What the page lists.
 */
export const useDialog = ({ reload }) => {
  const [open, setOpen] = useState(/** @type {Open<Row>} */ ({ kind: "" }));
  const show = (/** @type {[Plain] | [OfRow, Row]} */ ...next) =>
    setOpen(next.length === 1 ? { kind: next[0] } : { kind: next[0], about: next[1] });
  const close = (/** @type {string} */ words) => (/** @type {boolean} */ isDone) => {
    setOpen({ kind: "" });
    if (!isDone) return;
    tell(words);
    reload();
  };
  return { ...open, show, close };
};
