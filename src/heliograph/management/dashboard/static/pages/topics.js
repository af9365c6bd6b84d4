// @ts-check
/** Topics: the tree of what there is, messages as they come, and topics that are counted. */
import { html } from "../kernel/html.js";
import { TabbedPage } from "../parts/tabs.js";
import { TopicMetrics } from "./topics/metrics.js";
import { LiveTail } from "./topics/tail.js";
import { TopicTree } from "./topics/tree.js";
import texts from "../texts/en/topics.js";

const TABS = [
  { id: "tree", title: texts.tabs.tree, View: TopicTree, scope: "messages:read" },
  { id: "tail", title: texts.tabs.tail, View: LiveTail, scope: "messages:read" },
  { id: "metrics", title: texts.tabs.metrics, View: TopicMetrics, scope: "metrics:read" },
];

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function TopicsPage({ route }) {
  return html`<${TabbedPage} title=${texts.title} tabs=${TABS} route=${route} />`;
}
