// @ts-check
/** How subscriptions are shown in lists, and looked for by their filters. */
import { html } from "../../kernel/html.js";
import { cut } from "../../kernel/format.js";
import texts from "../../texts/en/client_subscriptions.js";
import { ClientLink } from "../clients/columns.js";

/** The options of a subscription that are not as usual. @param {Api.ListedSubscription} row */
const optionsOf = ({ nl, rap, rh }) =>
  [nl && texts.nl, rap && texts.rap, rh && texts.rh(rh)].filter(Boolean).join(", ");

/** @type {import("../../parts/table.js").Column<Api.ListedSubscription>[]} */
export const COLUMNS = [
  { key: "topic", title: texts.filter, kind: "code", isHead: true, show: ({ topic }) => html`
    <span title=${topic.length > 120 ? topic : undefined}>${cut(topic, 120)}</span>` },
  { key: "clientid", title: texts.client, kind: "code", show: (row) => html`<${ClientLink} id=${row.clientid} />` },
  { key: "qos", title: texts.qos, kind: "number" },
  { key: "options", title: texts.options, show: optionsOf },
  { key: "durable", title: texts.durable, show: (row) => (row.durable ? texts.onDisk : texts.inMemory) },
];

/** The API's parameters for a filter: one with wildcards stands for all that it covers. @param {string} filter */
export const byFilter = (filter) =>
  (/[+#]/.test(filter) && !filter.startsWith("$share/") ? { match_topic: filter } : { topic: filter });
