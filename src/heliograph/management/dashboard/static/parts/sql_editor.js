// @ts-check
/** An editor for the SQL of rules: colours, line numbers, words to complete, and the place of what is wrong. */
import { html, useEffect, useId, useMemo, useRef, useState } from "../kernel/html.js";
import { useExplained, useLanguage, useWords } from "./rule_language.js";
import { offered, piecesOf } from "./sql_words.js";
import texts from "../texts/en/sql.js";

const ROWS_MIN = 4;

/**
 * @typedef {import("./rule_language.js").Problem} Problem
 * @typedef {{ start: number, words: import("./sql_words.js").Word[], at: number, isMoved: boolean }} Offer
 */

/**
 * @param {{ label: string, value: string, onInput: (sql: string) => void, error?: string, hint?: unknown, isRequired?:
 *   boolean,
 *   onExplained?: (explained: import("./rule_language.js").Explained | null) => void, isWhole?: boolean }} props
 *   `isWhole`: whether it is a rule, which the node can be asked about while it is typed.
 */
export const SqlEditor = ({ label, value, onInput, error, hint, isRequired = false, onExplained, isWhole = true }) => {
  const id = useId();
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const layer = useRef(/** @type {HTMLElement | null} */ (null));
  const language = useLanguage();
  const words = useWords(language, value);
  const { explained, isCurrent } = useExplained(isWhole ? value : "");
  const [offer, setOffer] = useState(/** @type {Offer | null} */ (null));
  useEffect(() => onExplained?.(explained), [explained]);
  const problem = isCurrent ? explained?.problem ?? null : null;
  const lines = value.split("\n").length;
  const functions = useMemo(() => new Set(language.functions.map(({ name }) => name)), [language]);

  const suggest = (/** @type {boolean} */ isAsked) => {
    const { value: text, selectionStart, selectionEnd } = /** @type {HTMLTextAreaElement} */ (area.current);
    if (selectionStart !== selectionEnd) return setOffer(null);
    const found = offered(text, selectionStart, words, isAsked);
    setOffer(found.words.length ? { ...found, at: 0, isMoved: false } : null);
  };
  const take = (/** @type {Offer} */ { start, words: choice }, /** @type {number} */ at) => {
    const field = /** @type {HTMLTextAreaElement} */ (area.current);
    const caret = field.selectionStart;
    field.focus();
    field.setSelectionRange(start, caret);
    // It keeps the browser's "undo", which setting the value would not.
    document.execCommand("insertText", false, choice[at].text + (choice[at].kind === "function" ? "(" : ""));
    setOffer(null);
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === " " && event.ctrlKey) return stop(event, () => suggest(true));
    if (!offer) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const many = offer.words.length;
    if (step) stop(event, () => setOffer({ ...offer, at: (offer.at + step + many) % many, isMoved: true }));
    else if (event.key === "Escape") stop(event, () => setOffer(null));
    else if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && offer.isMoved)) stop(event, () =>
      take(offer, offer.at));
  };
  const scroll = () => {
    if (layer.current && area.current) layer.current.scrollLeft = area.current.scrollLeft;
  };
  const describedBy = [hint && `${id}-hint`, (error || problem) && `${id}-error`].filter(Boolean).join(" ")
    || undefined;
  return html`
    <div class=${`field${error || problem ? " invalid" : ""}`}>
      <label for=${id}>${label}</label>
      <div class="sql">
        <pre class="sql-lines" aria-hidden="true">${lineNumbers(Math.max(lines, ROWS_MIN), lines, problem)}</pre>
        <div class="sql-text">
          <pre class="sql-layer" aria-hidden="true" ref=${layer}>
            ${piecesOf(value, functions).map((piece) => colour(piece, problem))}${"\n"}</pre>
          <textarea id=${id} ref=${area} rows=${Math.max(lines, ROWS_MIN)} value=${value} required=${isRequired}
            wrap="off"
            spellcheck=${false} autocomplete="off" autocapitalize="off" aria-describedby=${describedBy}
            aria-invalid=${error || problem ? "true" : undefined} aria-autocomplete="list"
            aria-controls=${offer ? `${id}-offer` : undefined}
              aria-activedescendant=${offer ? `${id}-${offer.at}` : undefined}
            onInput=${(/** @type {{ target: HTMLInputElement }} */ event) =>
              { onInput(event.target.value); suggest(false); }}
            onKeyDown=${onKey} onScroll=${scroll} onBlur=${() => setOffer(null)}
              onClick=${() => setOffer(null)}></textarea>
          ${offer && html`<${OfferList} id=${id} offer=${offer} text=${value}
            onTake=${(/** @type {number} */ at) => take(offer, at)} />`}
        </div>
      </div>
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
      <p class="wrong" id=${`${id}-error`} role="status">${problem
        ? texts.place(problem.line, problem.column, problem.message) : error}</p>
    </div>`;
};

/** @param {Event} event @param {() => void} act */
const stop = (event, act) => {
  event.preventDefault();
  event.stopPropagation();
  act();
};

/** @param {number} shown @param {number} lines @param {Problem | null} problem */
const lineNumbers = (shown, lines, problem) => Array.from({ length: shown }, (_, index) =>
  html`<span key=${index} class=${problem?.line === index + 1 ? "sql-wrong" : ""}>
    ${index < lines ? index + 1 : " "}${"\n"}</span>`);

/**
 * A piece, cut once more where what is wrong begins or ends.
 * @param {import("./sql_words.js").Piece} piece
 * @param {Problem | null} problem
 */
const colour = ({ kind, text, start }, problem) => {
  if (!problem || problem.end <= start || problem.start >= start + text.length) return html`<span
    class=${`sql-${kind}`}>${text}</span>`;
  const [from, to] = [Math.max(0, problem.start - start), problem.end - start];
  return html`<span class=${`sql-${kind}`}>${text.slice(0, from)}<mark>${text.slice(from, to)}</mark>
    ${text.slice(to)}</span>`;
};

/** @param {{ id: string, offer: Offer, text: string, onTake: (at: number) => void }} props */
const OfferList = ({ id, offer, text, onTake }) => {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = text.slice(0, offer.start).split("\n");
    list.current?.style.setProperty("--at-line", String(before.length));
    list.current?.style.setProperty("--at-column", String(before[before.length - 1].length));
  }, [offer, text]);
  return html`
    <ul class="sql-offer" role="listbox" id=${`${id}-offer`} aria-label=${texts.completions} ref=${list}>
      ${offer.words.map((word, at) => html`
        <li key=${word.kind + word.text} id=${`${id}-${at}`} role="option" aria-selected=${at === offer.at}
          onMouseDown=${(/** @type {Event} */ event) => stop(event, () => onTake(at))}>
          <code>${word.text}${word.detail && html`<span class="quiet">${word.detail}</span>`}</code>
          <small>${word.about || texts.kinds[word.kind]}</small>
        </li>`)}
    </ul>`;
};
