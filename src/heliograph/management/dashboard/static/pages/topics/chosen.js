// @ts-check
/** What is known of the topic that is chosen, and where to go from there. */
import { html } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { bytes, count, time } from "../../kernel/format.js";
import { useAction } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { FactList } from "../../parts/facts.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import texts from "../../texts/en/topics.js";

/** @param {{ row: Api.TopicLevelObject }} props */
export const ChosenTopic = ({ row }) => html`
  <section class="card" aria-label=${texts.chosen}>
    <h2>${texts.chosen}</h2>
    ${row ? html`<${Known} key=${row.topic} row=${row} />` : html`<p class="quiet">${texts.nothingChosen}</p>`}
  </section>`;

/** @param {Api.TopicLevelObject} row The filter of all that lies at a topic and below it. */
const filterOf = (row) => (row.kind === "rest" ? "#" : row.has_children ? texts.below(row.topic) : row.topic);

/** @param {{ row: Api.TopicLevelObject }} props */
const Known = ({ row }) => {
  const filter = filterOf(row);
  const counting = useAction(async () => {
    await api.post("mqtt/topic_metrics", { topic: row.topic });
    tell(texts.counted(row.topic));
  });
  const isName = row.is_topic && !/[+#]/.test(row.topic);
  return html`
    <${FactList} rows=${factsOf(row)} />
    <p class="actions topic-links">
      <a class="button" href=${link("topics", "tail", { topic: filter })}>${texts.toTail}</a>
      <a class="button" href=${link("history", "messages", { topic: filter, span: "all" })}>${texts.toHistory}</a>
      ${may("clients:read") && html`<a class="button" href=${link("retained", { topic: filter })}>
        ${texts.toRetained}</a>`}
      ${isName && may("metrics:write") && html`<button type="button" disabled=${counting.isRunning}
        onClick=${() => counting.run()}>${texts.count}</button>`}
    </p>
    <${ErrorNote} error=${counting.error} />`;
};

/** @param {Api.TopicLevelObject} row @returns {[string, unknown][]} */
const factsOf = (row) => {
  const all = /** @type {[string, unknown, unknown][]} */ ([
    [texts.topic, row.topic, html`<code>${row.topic}</code>`],
    [texts.stored, row.messages, count(row.messages)],
    [texts.size, row.bytes, bytes(row.bytes)],
    [texts.streams, row.streams, count(row.streams)],
    [texts.topicsBelow, row.topics, count(row.topics)],
    [texts.rateTitle, row.messages_per_second, texts.rateOf(row.messages_per_second)],
    [texts.last, row.last_stored_at, time(row.last_stored_at)],
    [texts.filters, row.filters, count(row.filters)],
    [texts.subscribed, row.subscriptions, count(row.subscriptions)],
  ]);
  return all.filter(([, value]) => value !== undefined && value !== null).map(([name, , shown]) => [name, shown]);
};
