// @ts-check
/** What was stored: messages by topic and time, their replays, and the databases that hold them. */
import { html } from "../kernel/html.js";
import { TabbedPage } from "../parts/tabs.js";
import { Databases } from "./history/databases.js";
import { Replays } from "./history/replays.js";
import { MessageSearch } from "./history/search.js";
import texts from "../texts/en/history.js";

const TABS = [
  { id: "messages", title: texts.tabs.messages, View: MessageSearch, scope: "messages:read" },
  { id: "replays", title: texts.tabs.replays, View: Replays, scope: "messages:read" },
  { id: "storage", title: texts.tabs.storage, View: Databases, scope: "storage:read" },
];

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function HistoryPage({ route }) {
  return html`<${TabbedPage} title=${texts.title} tabs=${TABS} route=${route} />`;
}
