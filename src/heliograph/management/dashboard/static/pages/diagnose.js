// @ts-check
/** What is wrong, and why: slow subscriptions, long turns of the loop, who holds memory, the log. */
import { html } from "../kernel/html.js";
import { link } from "../kernel/router.js";
import { may, useSession } from "../kernel/session.js";
import { MemoryOwners } from "../parts/memory_owners.js";
import { PageHead } from "../parts/notice.js";
import { Tabs } from "../parts/tabs.js";
import { LogTail } from "./diagnose/log.js";
import { LongTurns } from "./diagnose/long_turns.js";
import { SlowSubscriptions } from "./diagnose/slow_subscriptions.js";
import texts from "../texts/en/diagnose.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function DiagnosePage({ route }) {
  const { user } = useSession();
  const node = user?.node ?? "";
  const tabs = ["slow", "turns", "memory", ...(may("log:read") ? ["log"] : [])]
    .map((id) => ({ id, title: texts.tabs[id], href: link("diagnose", { tab: id }) }));
  const tab = tabs.some(({ id }) => id === route.query.tab) ? route.query.tab : "slow";
  return html`
    <${PageHead} title=${texts.title} />
    <${Tabs} label=${texts.title} tabs=${tabs} current=${tab} />
    ${tab === "slow" && html`<${SlowSubscriptions} />`}
    ${tab === "turns" && html`<${LongTurns} node=${node} />`}
    ${tab === "memory" && html`<${MemoryOwners} node=${node} />`}
    ${tab === "log" && html`<${LogTail} node=${node} />`}`;
}
