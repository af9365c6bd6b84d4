// @ts-check
/** A group of settings in a dialog, as a form from their schema; what the node refuses stands beside the settings. */
import { html, submitting, useState } from "../kernel/html.js";
import { useAction } from "../kernel/resource.js";
import { useSeen } from "./changed.js";
import { Dialog } from "./dialog.js";
import { ErrorNote } from "./notice.js";
import { SchemaForm, problemsOf } from "./schema_form.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/schema_form.js";

/**
 * @typedef {import("./schema/kinds.js").Schema} Schema
 * @typedef {Record<string, unknown>} Settings
 * @param {{ title: string, intro?: unknown, schema: Schema | undefined, root: Schema | undefined, initial?: Settings,
 *   prefix: string[], action: string,
 *   canAct?: boolean, load?: () => Promise<unknown>,
 *   act: (value: Settings) => Promise<unknown>, onClose: (isDone: boolean) => void,
 *   children?: (value: Settings, set: (value: Settings) => void) => unknown }} props
 *   `prefix`: where the group stands in the configuration, `*` for a name or position; `children`: what stands above
 *   the form; `load`: the settings as they hold now, which tell whether somebody else has changed those of `initial`.
 */
export const SettingsDialog = ({ title, intro, schema, root, initial = {}, prefix, action, canAct = true, load, act,
  onClose, children }) => {
  const [value, setValue] = useState(initial);
  const seen = useSeen(initial);
  const { run, isRunning, error } = useAction(async () => {
    if (load) seen.check(await load());
    await act(value);
  });
  const { fields, rest } = problemsOf(error, prefix);
  const count = Object.keys(fields).length;
  const submit = submitting(async () => {
    if (await run()) onClose(true);
  });
  return html`
    <${Dialog} title=${title} onClose=${() => onClose(false)} isWide>
      <form onSubmit=${submit}>
        ${intro && html`<p class="quiet">${intro}</p>`}
        ${children?.(value, setValue)}
        ${schema && html`<${SchemaForm} schema=${schema} root=${root} value=${value} onInput=${setValue}
          errors=${fields} />`}
        ${count > 0 && html`<p class="note error" role="alert">${texts.wrongFields(Object.entries(fields))}</p>`}
        <${ErrorNote} error=${count && !rest ? null : error && { ...error, code: error.code, message: rest
          || error.message }} />
        <footer>
          <button type="button" onClick=${() => onClose(false)}>${everywhere.cancel}</button>
          <button type="submit" class="main" disabled=${isRunning || !canAct}>${action}</button>
        </footer>
      </form>
    <//>`;
};
