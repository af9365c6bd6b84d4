// @ts-check
/** The tree of topics, and what is known of the one that is chosen. */
import { html, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { count } from "../../kernel/format.js";
import { useResource } from "../../kernel/resource.js";
import { replaceQuery } from "../../kernel/router.js";
import { useCursor } from "../../parts/cursor.js";
import { SearchField } from "../../parts/field.js";
import { Empty, ErrorNote, Loaded, Loading } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/topics.js";
import { itemsOf, ROOT, useLevels } from "./levels.js";
import { Branches } from "./branches.js";
import { ChosenTopic } from "./chosen.js";

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export const TopicTree = ({ route }) => {
  const search = route.query.search ?? "";
  const [chosen, setChosen] = useState(/** @type {Api.TopicLevelObject | null} */ (null));
  return html`
    <div class="filters" role="search">
      <${SearchField} label=${texts.search} hint=${texts.searchHint} value=${search}
        onSearch=${(/** @type {string} */ text) => replaceQuery({ search: text })} />
      ${search && html`<button type="button" onClick=${() => replaceQuery({})}>${texts.clear}</button>`}
    </div>
    <div class="split">
      <div>${search ? html`<${Found} key=${search} search=${search} onChoose=${setChosen} />`
        : html`<${Levels} chosen=${chosen} onChoose=${setChosen} />`}</div>
      <${ChosenTopic} row=${chosen} />
    </div>`;
};

/** @param {{ chosen: Api.TopicLevelObject | null, onChoose: (row: Api.TopicLevelObject) => void }} props */
const Levels = ({ chosen, onChoose }) => {
  const tree = useLevels();
  const root = tree.levels[ROOT];
  if (root?.error && root.rows.length === 0) return html`<${ErrorNote} error=${root.error} again=${tree.refresh} />`;
  if (!root?.meta) return html`<${Loading} />`;
  if (root.rows.length === 0) return html`<${Empty}>${texts.none}<//>`;
  return html`
    <div class="actions list-actions">
      <span class="quiet">${texts.sources[root.meta.source](root.meta)}</span>
      <button type="button" onClick=${tree.refresh}>${everywhere.refresh}</button>
    </div>
    <${Branches} items=${itemsOf(tree.levels)} tree=${tree} chosen=${chosen} onChoose=${onChoose} />
    <p class="quiet">${texts.keys}</p>`;
};

/** @param {{ search: string, onChoose: (row: Api.TopicLevelObject) => void }} props */
const Found = ({ search, onChoose }) => {
  const { cursor, hasBefore, next, before } = useCursor(search);
  const found = useResource(JSON.stringify([search, cursor]), (signal) =>
    api.get("heliograph/topic_tree", { search, cursor }, signal));
  const columns = /** @type {import("../../parts/table.js").Column<Api.TopicLevelObject>[]} */ ([
    { key: "topic", title: texts.topic, kind: "code", isHead: true },
    { key: "messages", title: texts.stored, kind: "number", show: (row) => count(row.messages) },
    { key: "messages_per_second", title: texts.rateTitle, kind: "number", show: (row) =>
      texts.rateOf(row.messages_per_second) },
    { key: "do", title: texts.actions, kind: "actions", show: (row) =>
      html`<button type="button" onClick=${() => onChoose(row)}>${texts.show}</button>` },
  ]);
  return html`
    <${Loaded} of=${found}>${(/** @type {Api.TopicLevels} */ { data, meta }) => html`
      <p class="quiet">${texts.sources.seen(meta)}</p>
      <${Table} caption=${texts.found} columns=${columns} rows=${data}
        rowKey="topic"
        empty=${texts.noneFound} />
      <${Pager} hasMore=${meta.hasnext} hasBefore=${hasBefore} onMore=${() => next(meta.cursor)}
        onBefore=${before} />`}<//>`;
};
