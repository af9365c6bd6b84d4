// @ts-check
/** Fields of forms, each with its label, its hint, and the error that it caused beside it. */
import { html, useId, useState } from "../kernel/html.js";

/**
 * @param {{ label: string, value: string | number | null | undefined, onInput: (value: string) => void, hint?: unknown,
 *   error?: string, type?: string, isRequired?: boolean, options?: (string | { value: string, label: string })[],
 *   rows?: number, [more: string]: unknown }} props
 */
export const Field = ({ label, value, onInput, hint, error, type = "text", isRequired = false, options, rows,
  ...more }) => {
  const id = useId();
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const shared = {
    id, required: isRequired, "aria-describedby": describedBy, "aria-invalid": error ? "true" : undefined,
    onInput: (/** @type {{ target: HTMLInputElement }} */ event) => onInput(event.target.value), ...more,
  };
  return html`
    <div class=${`field${error ? " invalid" : ""}`}>
      <label for=${id}>${label}</label>
      ${options ? html`<select ...${shared} value=${value}>${options.map(optionOf)}</select>`
        : rows ? html`<textarea ...${shared} rows=${rows} value=${value} spellcheck=${false}></textarea>`
        : html`<input ...${shared} type=${type} value=${value} />`}
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
      ${error && html`<p class="wrong" id=${`${id}-error`}>${error}</p>`}
    </div>`;
};

/** @param {string | { value: string, label: string }} option */
const optionOf = (option) => typeof option === "string" ? html`<option value=${option}>${option}</option>`
  : html`<option value=${option.value}>${option.label}</option>`;

/**
 * @param {{ label: unknown, value: boolean, onInput: (value: boolean) => void, hint?: unknown,
 *   [more: string]: unknown }} props
 */
export const CheckField = ({ label, value, onInput, hint, ...more }) => {
  const id = useId();
  return html`
    <div class="field check">
      <input ...${more} id=${id} type="checkbox" checked=${value} aria-describedby=${hint ? `${id}-hint` : undefined}
        onInput=${(/** @type {{ target: HTMLInputElement }} */ event) => onInput(event.target.checked)} />
      <label for=${id}>${label}</label>
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    </div>`;
};

/**
 * A file that is chosen, or dropped there.
 * @param {{ label: string, onInput: (file: File | undefined) => void, isRequired?: boolean }} props
 */
export const FileField = ({ label, onInput, isRequired = false }) => {
  const id = useId();
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <input id=${id} type="file" required=${isRequired}
        onInput=${(/** @type {{ target: HTMLInputElement }} */ event) => onInput(event.target.files?.[0])} />
    </div>`;
};

/**
 * A field that searches when the user leaves it or presses Enter.
 * @param {{ label: string, value: string, onSearch: (value: string) => void, [more: string]: unknown }} props
 */
export const SearchField = ({ label, value, onSearch, ...more }) => {
  const [typed, setTyped] = useState({ of: value, text: value }); // until the value is another one
  return html`<${Field} ...${more} label=${label} value=${typed.of === value ? typed.text : value}
    onInput=${(/** @type {string} */ text) => setTyped({ of: value, text })} type="search"
    onChange=${(/** @type {{ target: HTMLInputElement }} */ event) => onSearch(event.target.value)} />`;
};
