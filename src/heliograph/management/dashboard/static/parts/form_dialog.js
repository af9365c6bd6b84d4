// @ts-check
/** A form of a few fields in a dialog: errors stand beside the field that the API names, else above the buttons. */
import { html, useState } from "../kernel/html.js";
import { ActDialog } from "./dialog.js";
import { CheckField, Field } from "./field.js";

/**
 * @typedef {{ name: string, label: string, hint?: unknown, isRequired?: boolean, type?: string, rows?: number,
 *   options?: (string | { value: string, label: string })[], [more: string]: unknown }} FormField
 *   `type` may be `check`.
 */

/** @typedef {import("../kernel/resource.js").Failure} Failure */

/**
 * What was typed, by the names of fields.
 * @typedef {Record<string, string | number | boolean | undefined>} Values
 * @param {{ title: string, fields: FormField[], initial?: Values, action: string, intro?: unknown,
 *   act: (values: Values) => Promise<unknown>, onClose: (isDone: boolean) => void }} props
 */
export const FormDialog = ({ title, fields, initial = {}, action, intro, act, onClose }) => {
  const [values, setValues] = useState(initial);
  const names = new Set(fields.map(({ name }) => name));
  return html`
    <${ActDialog} title=${title} action=${action} act=${() => act(values)} onClose=${onClose} class="stack"
      isShown=${(/** @type {Failure} */ { field = "" }) => !names.has(field)}>
      ${(/** @type {Failure | null} */ error) => html`
      ${intro && html`<p>${intro}</p>`}
      ${fields.map(({ name, type, ...more }, index) => html`
        <${type === "check" ? CheckField : Field} key=${name} ...${more} type=${type} autofocus=${index === 0}
          value=${values[name] ?? (type === "check" ? false : "")} error=${error?.field === name ? error.message : ""}
          onInput=${(/** @type {string | boolean} */ value) => setValues((old) =>
            ({ ...old, [name]: value }))} />`)}`}<//>`;
};
