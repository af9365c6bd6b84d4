// @ts-check
/** The sources of authorization, in the order in which they are asked. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useLive } from "../../kernel/live.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog, useDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { loadSchema, schemaAt, variantOf } from "../../parts/schema_form.js";
import { SettingsDialog } from "../../parts/settings_dialog.js";
import { ChainTable, linksOf, useLiveLinks } from "./chain.js";
import everywhere from "../../texts/en/everywhere.js";
import shared from "../../texts/en/access.js";

const texts = shared.authorization;
const PREFIX = ["authorization", "sources", "*"];
const COUNTS = [["total", texts.total], ["allow", texts.allow], ["deny", texts.deny], ["nomatch", texts.nomatch]];

/** @param {AbortSignal} signal */
const load = async (signal) => {
  const [root, { sources }] = await Promise.all([loadSchema(), api.get("authorization/sources", {}, signal)]);
  const links = await linksOf(sources, ({ type }) => type, (name) =>
    api.get(path("authorization/sources/{type}/status", name), {}, signal));
  return { root, links };
};

/** @typedef {import("../../parts/settings_dialog.js").Settings} Settings */

/**
 * Rules of a file are sent where they were changed: they are written to a new file then.
 * @param {Api.SourceObject} before
 * @param {Settings} after
 */
const bodyOf = (before, { rules, ...settings }) => (rules === before.rules ? settings : { ...settings, rules });

/** @param {Settings} value @param {(value: Settings) => void} set */
const fileRules = (value, set) => value.type === "file" && html`<${Field} label=${texts.fileRules}
  hint=${texts.fileRulesHint} rows=${10}
  value=${value.rules ?? ""} onInput=${(/** @type {string} */ rules) => set({ ...value, rules })} />`;

export const SourcesTab = () => {
  const chain = useResource("sources", load);
  const links = useLiveLinks(useLive("authorization")?.authorization, chain);
  const { kind, about, show, close } = useDialog({ data: links, reload: chain.reload });
  const move = useAction(async (/** @type {string} */ name, /** @type {string} */ position) => {
    await api.post(path("authorization/sources/{type}/move", name), { position });
    tell(shared.moved);
    chain.reload();
  });
  const mayWrite = may("authorization:write");
  const items = chain.data && schemaAt(chain.data.root, ["authorization", "sources"])?.items;
  return html`
    <p class="actions tools"><button type="button" onClick=${chain.reload}>${everywhere.refresh}</button>
      ${mayWrite && html`<button type="button" class="main" onClick=${() => show("add")} disabled=${!items}>
        ${texts.add}</button>`}</p>
    <${ErrorNote} error=${move.error} />
    <${Loaded} of=${chain}>${() => html`
      <${ChainTable} caption=${texts.tabs.sources} title=${texts.name} links=${links} counts=${COUNTS}
        mayWrite=${mayWrite} isBusy=${chain.isLoading}
        empty=${texts.none} onMove=${move.run} show=${show} />`}<//>
    ${kind === "add" && html`<${SettingsDialog} title=${texts.add} intro=${texts.addHint} schema=${items}
      root=${chain.data?.root} prefix=${PREFIX}
      action=${texts.add} act=${(/** @type {object} */ value) => api.post("authorization/sources", value)}
        onClose=${close(texts.added)}>${fileRules}<//>`}
    ${kind === "change" && html`<${SettingsDialog} title=${shared.changeNamed(about.name)} root=${chain.data?.root}
      prefix=${PREFIX}
      schema=${items?.oneOf?.[variantOf(items, about.settings)]} initial=${about.settings} action=${everywhere.save}
      load=${() => api.get(path("authorization/sources/{type}", about.name))}
      act=${(/** @type {Settings} */ value) => api.put(path("authorization/sources/{type}", about.name),
        bodyOf(about.settings, value))}
      onClose=${close(shared.saved(about.name))}>${fileRules}<//>`}
    ${kind === "delete" && html`<${ConfirmDialog}
      text=${texts.removeText(about.name)} name=${about.name} typed
      action=${shared.removeNamed(about.name)} act=${() => api.del(path("authorization/sources/{type}", about.name))}
        onClose=${close(shared.removed(about.name))} />`}`;
};
