// @ts-check
/** What evaluates a rule, and why; what it reads and gives. */
import { html } from "../../kernel/html.js";
import { Table } from "../../parts/table.js";
import { kindOf } from "./actions.js";
import everywhere from "../../texts/en/rule.js";

const texts = everywhere.engine;

/** @typedef {import("../../parts/rule_language.js").Explained} Explained */

/** @type {import("../../parts/table.js").Column<Api.RulePart>[]} */
const COLUMNS = [
  { key: "name", title: texts.column, kind: "code", isHead: true },
  { key: "type", title: texts.type, kind: "code" },
  { key: "engine", title: texts.needs, show: ({ engine }) => (engine === "native" ? texts.yes : texts.no) },
  { key: "reason", title: texts.why },
];

/** @param {{ explained: Explained | null, actions: import("./actions.js").Action[] }} props */
export const EngineCard = ({ explained, actions }) => html`
  <section class="card engine">
    <h2>${texts.title}</h2>
    ${!explained || explained.problem ? html`<p class="quiet">${texts.hint}</p>` : html`
      ${explained.unknown_functions.length > 0 && html`<div class="note warn">
        ${texts.unknown(explained.unknown_functions)}</div>`}
      <dl class="facts">
        <dt>${texts.reads}</dt><dd class="code">${explained.topics.join(", ")}</dd>
        <dt>${texts.broker}</dt><dd>${explained.may_block ? texts.inThreads
          : texts.atOnce}${" "}${explained.events.length > 0 && texts.events(explained.events)}</dd>
        <dt>${texts.rows}</dt><dd>${rowsGo(actions)}</dd>
        <dt>${texts.spark}</dt><dd>${onSpark(explained)}</dd>
      </dl>
      ${explained.parts.length > 0 && html`<${Table} caption=${texts.parts} columns=${COLUMNS} rows=${explained.parts}
        rowKey="name" />`}`}
  </section>`;

/** @param {import("./actions.js").Action[]} actions */
const rowsGo = (actions) => {
  const targets = actions.filter((action) => typeof action === "string" || kindOf(action) === "pipeline")
    .map((action) => (typeof action === "string" ? action : everywhere.engine.pipeline));
  return targets.length ? texts.stored([...new Set(targets)]) : texts.inBroker;
};

/** @param {Explained} explained */
const onSpark = ({ engine, spark_problem: problem, topics, events }) => {
  if (topics.length === events.length) return texts.onlyEvents;
  if (!engine) return texts.never(problem);
  return engine === "native" ? texts.native : texts.udf;
};
