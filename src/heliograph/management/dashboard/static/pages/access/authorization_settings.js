// @ts-check
/** What holds beside the sources: where no rule fits, what happens to who is denied, what is remembered. */
import { html, submitting, useMemo, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { useSeen } from "../../parts/changed.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { SchemaForm, differences, loadSchema, problemsOf, schemaAt, withChanges } from "../../parts/schema_form.js";
import everywhere from "../../texts/en/everywhere.js";
import shared from "../../texts/en/access.js";

const texts = shared.authorization;

/** @param {AbortSignal} signal */
const load = async (signal) => {
  const [root, settings] = await Promise.all([loadSchema(), api.get("authorization/settings", {}, signal)]);
  return { root, settings };
};

export const AuthorizationSettings = () => {
  const loaded = useResource("authorization settings", load);
  return html`<${Loaded} of=${loaded}>${(/** @type {Awaited<ReturnType<typeof load>>} */ { root, settings }) => html`
    <${SettingsCard} root=${root} settings=${settings} onSaved=${(/** @type {Settings} */ next) =>
      loaded.set({ root, settings: next })} />`}<//>`;
};

/**
 * @typedef {Record<string, unknown>} Settings
 * @param {{ root: import("../../parts/schema/kinds.js").Schema, settings: Settings, onSaved: (settings: Settings) =>
 *   void }} props
 */
const SettingsCard = ({ root, settings, onSaved }) => {
  const [typed, setTyped] = useState({ of: settings, draft: settings }); // until they are loaded anew
  const draft = typed.of === settings ? typed.draft : settings;
  const schema = useMemo(() => {
    const whole = schemaAt(root, ["authorization"]);
    const { sources, ...properties } = whole?.properties ?? {};
    return { ...whole, properties };
  }, [root]);
  const changes = differences(settings, draft);
  const seen = useSeen(settings);
  const save = useAction(async () => {
    seen.check(await api.get("authorization/settings"));
    const body = withChanges({}, changes.map(({ path, value }) => ({ path, value: value ?? null })));
    const saved = await api.put("authorization/settings", body);
    seen.saved(saved);
    onSaved(saved);
    tell(texts.settingsSaved);
  });
  const clean = useAction(async () => {
    await api.del("authorization/cache");
    tell(texts.cleaned);
  });
  const { fields, rest } = problemsOf(save.error, ["authorization"]);
  const mayWrite = may("authorization:write");
  const submit = submitting(() => save.run());
  return html`
    ${mayWrite && html`<p class="actions tools"><button type="button" disabled=${clean.isRunning}
      onClick=${() => clean.run()}>${texts.clean}</button></p>`}
    <${ErrorNote} error=${clean.error} />
    <form class="card" onSubmit=${submit}>
      <h2>${texts.settingsTitle}</h2>
      <${SchemaForm} schema=${schema} root=${root} value=${draft} onInput=${(/** @type {Settings} */ next) =>
        setTyped({ of: settings, draft: next })} errors=${fields}
        isReadOnly=${!mayWrite} />
      <${ErrorNote} error=${save.error && (rest || !Object.keys(fields).length) ? save.error : null} />
      ${mayWrite && html`<p class="actions"><button type="submit" class="main"
        disabled=${save.isRunning || changes.length === 0}>${everywhere.save}</button></p>`}
    </form>`;
};
