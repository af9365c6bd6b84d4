// @ts-check
/** Who may connect: authenticators in the order in which they are asked. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { useLive } from "../kernel/live.js";
import { useAction, useResource } from "../kernel/resource.js";
import { link as address } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, useDialog } from "../parts/dialog.js";
import { ErrorNote, Loaded, PageHead, tell } from "../parts/notice.js";
import { loadSchema, schemaAt, variantOf } from "../parts/schema_form.js";
import { SettingsDialog } from "../parts/settings_dialog.js";
import { ChainTable, linksOf, useLiveLinks } from "./access/chain.js";
import everywhere from "../texts/en/everywhere.js";
import shared from "../texts/en/access.js";

const texts = shared.authentication;
const PREFIX = ["authentication", "*"];
const COUNTS = [["total", texts.total], ["success", texts.success], ["failed", texts.failed],
  ["nomatch", texts.nomatch]];

/** @param {AbortSignal} signal */
const load = async (signal) => {
  const [root, list] = await Promise.all([loadSchema(), api.get("authentication", {}, signal)]);
  const links = await linksOf(list, ({ id }) => id, (name) =>
    api.get(path("authentication/{id}/status", name), {}, signal));
  return { root, links };
};

/**
 * @typedef {import("../parts/settings_dialog.js").Settings} Settings
 * @typedef {import("./access/chain.js").Link<Api.AuthenticatorObject>} Link
 */

/** @param {Settings} settings */
const body = ({ id, ...settings }) => settings;

export default function AuthenticationPage() {
  const chain = useResource("authentication", load);
  const links = useLiveLinks(useLive("authentication")?.authentication, chain);
  const { kind, about, show, close } = useDialog({ data: links, reload: chain.reload });
  const move = useAction(async (/** @type {string} */ name, /** @type {string} */ position) => {
    await api.put(path("authentication/{id}/position/{position}", name, position));
    tell(shared.moved);
    chain.reload();
  });
  const mayWrite = may("authentication:write");
  const items = chain.data && schemaAt(chain.data.root, ["authentication"])?.items;
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${chain.reload}>${everywhere.refresh}</button>
      ${mayWrite && html`<a class="button" href=${address("mqtt_users", { add: "yes" })}>${shared.addUser}</a>
        <button type="button" class="main" onClick=${() => show("add")} disabled=${!items}>${texts.add}</button>`}<//>
    <p class="quiet">${texts.intro}</p>
    <${ErrorNote} error=${move.error} />
    <${Loaded} of=${chain}>${() => html`
      <${ChainTable} caption=${texts.title} title=${texts.name} links=${links} counts=${COUNTS} mayWrite=${mayWrite}
        isBusy=${chain.isLoading}
        empty=${texts.none} onMove=${move.run} show=${show}
        more=${(/** @type {Link} */ one) => one.settings.backend === "built_in_database"
          && html`<a class="button" href=${address("mqtt_users", { of: one.name })}>${texts.users}</a>`} />`}<//>
    ${kind === "add" && html`<${SettingsDialog} title=${texts.add} intro=${texts.risk} schema=${items}
      root=${chain.data?.root} prefix=${PREFIX} action=${texts.add}
      act=${(/** @type {object} */ value) => api.post("authentication", value)} onClose=${close(texts.added)} />`}
    ${kind === "change" && html`<${SettingsDialog} title=${shared.changeNamed(about.name)} intro=${texts.risk}
      root=${chain.data?.root} prefix=${PREFIX}
      schema=${items?.oneOf?.[variantOf(items, about.settings)]} initial=${about.settings} action=${everywhere.save}
      load=${() => api.get(path("authentication/{id}", about.name))}
      act=${(/** @type {Settings} */ value) => api.put(path("authentication/{id}", about.name), body(value))}
        onClose=${close(shared.saved(about.name))} />`}
    ${kind === "delete" && html`<${ConfirmDialog}
      text=${texts.removeText(about.name)} name=${about.name} typed
      action=${shared.removeNamed(about.name)} act=${() => api.del(path("authentication/{id}", about.name))}
        onClose=${close(shared.removed(about.name))} />`}`;
}
