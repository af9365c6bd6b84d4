// @ts-check
/**
 * What clients may do: sources in the order in which they are asked, the rules that the node keeps, and what holds
 * beside.
 */
import { html } from "../kernel/html.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { PageHead } from "../parts/notice.js";
import { Tabs } from "../parts/tabs.js";
import { AuthorizationSettings } from "./access/authorization_settings.js";
import { RulesTab } from "./access/rules.js";
import { SourcesTab } from "./access/sources.js";
import shared from "../texts/en/access.js";

const texts = shared.authorization;
/** @type {Record<string, (props: { route: import("../kernel/router.js").Route }) => unknown>} */
const TABS = { sources: SourcesTab, rules: RulesTab, settings: AuthorizationSettings };

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function AuthorizationPage({ route }) {
  const tab = Object.hasOwn(TABS, route.steps[1] ?? "") ? route.steps[1] : "sources";
  return html`
    <${PageHead} title=${texts.title}>${may("authorization:write")
      && html`<a class="button" href=${link("mqtt_users", { add: "yes" })}>${shared.addUser}</a>`}<//>
    <p class="quiet">${texts.intro}</p>
    <${Tabs} label=${texts.title} current=${tab} tabs=${Object.entries(texts.tabs).map(([id, title]) =>
      ({ id, title, href: link("authorization", id) }))} />
    <${TABS[tab]} route=${route} />`;
}
