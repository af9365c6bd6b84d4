// @ts-check
/** Traces: those that are recorded, one of them, and one that is watched while it is on. */
import { html } from "../kernel/html.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { PageHead } from "../parts/notice.js";
import { Tabs } from "../parts/tabs.js";
import texts from "../texts/en/traces.js";
import { LiveTrace } from "./traces/live.js";
import { TraceList } from "./traces/list.js";
import { TraceLog } from "./traces/log.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function TracesPage({ route }) {
  const name = route.steps[1];
  if (name !== undefined) return html`<${TraceLog} key=${name} name=${name} />`;
  const isLive = route.query.tab === "live" && may("traces:write");
  const tabs = [
    { id: "recorded", title: texts.recorded, href: link("traces") },
    ...(may("traces:write") ? [{ id: "live", title: texts.live, href: link("traces", { tab: "live" }) }] : []),
  ];
  return html`
    <${PageHead} title=${texts.title} />
    <p>${texts.about}</p>
    <${Tabs} label=${texts.tabsLabel} current=${isLive ? "live" : "recorded"} tabs=${tabs} />
    ${isLive ? html`<${LiveTrace} key=${JSON.stringify(route.query)} query=${route.query} />`
      : html`<${TraceList} />`}`;
}
