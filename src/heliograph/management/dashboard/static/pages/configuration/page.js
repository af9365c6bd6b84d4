// @ts-check
/** What the node is set to, where each value comes from, and changes: planned, on trial or for good, and taken back. */
import { html } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { Loaded, PageHead } from "../../parts/notice.js";
import { loadSchema, namesOf, withValue } from "../../parts/schema_form.js";
import { Tabs } from "../../parts/tabs.js";
import { TrialNote, useTrial } from "../../parts/trial.js";
import { RevisionsTab } from "./revisions.js";
import { SettingsTab } from "./settings.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/configuration.js";

/**
 * @typedef {Api.ConfigurationState} State
 * @typedef {{ schema: Schema, rows: Map<string, Api.SettingShown>, tree: unknown, state: State }} Held
 * @typedef {import("../../parts/schema/kinds.js").Schema} Schema
 */

const TABS = [
  { id: "settings", title: texts.tabs.settings, href: link("configuration") },
  { id: "revisions", title: texts.tabs.revisions, href: link("configuration", "revisions") },
];

/** @param {AbortSignal} signal @returns {Promise<Held>} */
const load = async (signal) => {
  // The state first: a change that comes between is then told as a conflict, and not taken for what was looked at.
  const state = await api.get("heliograph/configuration/state", {}, signal);
  const [schema, rows] = await Promise.all([loadSchema(), api.get("heliograph/configuration", {}, signal)]);
  const tree = rows.filter((row) => !row.inherited_from).reduce((made, row) =>
    withValue(made, namesOf(row.path), row.plain ?? undefined), /** @type {unknown} */ ({}));
  return { schema, rows: new Map(rows.map((row) => [row.path, row])), tree, state };
};

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export default function ConfigurationPage({ route }) {
  const held = useResource("configuration", load);
  const [, section = "mqtt", number] = route.steps;
  const isRevisions = section === "revisions";
  const later = useTrial(); // somebody else may have begun it since the page was loaded
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${held.reload}>${everywhere.refresh}</button><//>
    <${Tabs} label=${texts.title} current=${isRevisions ? "revisions" : "settings"} tabs=${TABS} />
    <${Loaded} of=${held}>${(/** @type {Held} */ data) => html`
      <${TrialNote} trial=${later && later.revision > data.state.revision ? later : data.state}
        reload=${held.reload} />
      ${data.state.restart.length > 0 && html`<p class="note warn">${texts.restartTold(data.state.restart)}</p>`}
      <div hidden=${isRevisions}><${SettingsTab} held=${data} section=${isRevisions ? "mqtt" : section}
        query=${route.query} reload=${held.reload} /></div>
      ${isRevisions && html`<${RevisionsTab} state=${data.state} number=${number} reload=${held.reload} />`}`}<//>`;
}
