// @ts-check
/** A form of a few fields in a dialog: errors stand beside the field that the API names, else above the buttons. */
import { html, useState } from "../kernel/html.js";
import { useAction } from "../kernel/resource.js";
import { Dialog } from "./dialog.js";
import { CheckField, Field } from "./field.js";
import { ErrorNote } from "./notice.js";
import texts from "../texts/en/everywhere.js";

/**
 * @typedef {{ name: string, label: string, hint?: unknown, isRequired?: boolean, type?: string, rows?: number,
 *   options?: (string | { value: string, label: string })[], [more: string]: unknown }} FormField
 *   `type` may be `check`.
 */

/**
 * What was typed, by the names of fields.
 * @typedef {Record<string, string | number | boolean | undefined>} Values
 * @param {{ title: string, fields: FormField[], initial?: Values, action: string, intro?: unknown,
 *   act: (values: Values) => Promise<unknown>, onClose: (isDone: boolean) => void }} props
 */
export const FormDialog = ({ title, fields, initial = {}, action, intro, act, onClose }) => {
  const [values, setValues] = useState(initial);
  const { run, isRunning, error } = useAction(() => act(values));
  const names = new Set(fields.map(({ name }) => name));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (await run()) onClose(true);
  };
  return html`
    <${Dialog} title=${title} onClose=${() => onClose(false)}>
      <form class="stack" onSubmit=${submit}>
        ${intro && html`<p>${intro}</p>`}
        ${fields.map(({ name, type, ...more }, index) => html`
          <${type === "check" ? CheckField : Field} key=${name} ...${more} type=${type} autofocus=${index === 0}
            value=${values[name] ?? (type === "check" ? false : "")} error=${error?.field === name ? error.message : ""}
            onInput=${(/** @type {string | boolean} */ value) => setValues((old) =>
              ({ ...old, [name]: value }))} />`)}
        <${ErrorNote} error=${error && !names.has(error.field ?? "") ? error : null} />
        <footer>
          <button type="button" onClick=${() => onClose(false)}>${texts.cancel}</button>
          <button type="submit" class="main" disabled=${isRunning}>${action}</button>
        </footer>
      </form>
    <//>`;
};
