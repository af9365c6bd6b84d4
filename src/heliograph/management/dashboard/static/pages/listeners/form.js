// @ts-check
/** A new listener, or other settings for one. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { Field } from "../../parts/field.js";
import { Dialog } from "../../parts/dialog.js";
import { Loaded } from "../../parts/notice.js";
import { SettingsDialog } from "../../parts/settings_dialog.js";
import { differences, loadSchema, schemaAt, withChanges } from "../../parts/schema_form.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/listeners.js";

const OURS = ["id", "type", "name", "acceptors", "running", "current_connections", "address", "certificate_expires_at"];
const TYPES = Object.entries(texts.types).map(([value, label]) => ({ value, label }));

/** @param {unknown} before @param {unknown} after Only what differs, with null for what is taken out. */
const changed = (before, after) => withChanges({}, differences(before, after).map(({ path: names, value }) =>
  ({ path: names, value: value ?? null })));

/** The settings of a listener. @param {string} id @param {AbortSignal} [signal] */
const load = async (id, signal) => Object.fromEntries(
  Object.entries(await api.get(path("listeners/{id}", id), {}, signal))
    .filter(([name]) => !OURS.includes(name)));

/** @param {{ id?: string, onClose: (isDone: boolean) => void }} props */
export const ListenerDialog = ({ id = "", onClose }) => {
  const loaded = useResource(id || "new", async (signal) => {
    const [root, settings] = await Promise.all([loadSchema(), id ? load(id, signal) : {}]);
    return { root, settings };
  });
  const [type, setType] = useState(id.split(":")[0] || "tcp");
  const [name, setName] = useState(id.split(":")[1] ?? "");
  const title = id ? texts.named.change(id) : texts.add;
  if (!loaded.data) return html`<${Dialog} title=${title} onClose=${() => onClose(false)}><${Loaded} of=${loaded}>
    ${() => null}<//><//>`;
  const { root, settings } = loaded.data;
  const schema = schemaAt(root, ["listeners", type, "*"]);
  return html`<${SettingsDialog} key=${type} title=${title} intro=${id && texts.changeIntro} schema=${schema}
    root=${root}
    initial=${settings} prefix=${["listeners", "*", "*"]} action=${id ? everywhere.save : texts.add} onClose=${onClose}
    load=${id && (() => load(id))}
    act=${(/** @type {object} */ value) => (id ? api.put(path("listeners/{id}", id), changed(settings, value))
      : api.post("listeners", { ...value, type, name }))}>
    ${() => !id && html`
      <${Field} label=${texts.type} options=${TYPES} value=${type} onInput=${setType} />
      <${Field} label=${texts.name} hint=${texts.nameHint} value=${name} onInput=${setName} isRequired
        autocomplete="off" />`}<//>`;
};
