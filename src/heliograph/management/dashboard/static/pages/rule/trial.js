// @ts-check
/** A rule tried on sample columns, or on a stored message. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { Field } from "../../parts/field.js";
import { Empty, ErrorNote } from "../../parts/notice.js";
import { eventsOf, PUBLISHED, useLanguage } from "../../parts/rule_language.js";
import { topicsOf } from "../../parts/sql_words.js";
import { TrialCard } from "../../parts/trial_card.js";
import everywhere from "../../texts/en/rule.js";

const texts = everywhere.trial;

/**
 * @typedef {import("../../parts/rule_language.js").RuleEvent} RuleEvent
 * @typedef {import("../../parts/stored_messages.js").SeenMessage} SeenMessage
 */

/** @param {{ sql: string }} props */
export const RuleTrial = ({ sql }) => {
  const language = useLanguage();
  const events = eventsOf(language, sql);
  const [chosen, setChosen] = useState("");
  const [typed, setTyped] = useState(/** @type {Record<string, string>} */ ({}));
  const [output, setOutput] = useState(/** @type {unknown} */ (undefined));
  const event = events.find((one) => one.event === chosen) ?? events[0];
  const trial = useAction(async (/** @type {unknown} */ context) => {
    setOutput(undefined);
    setOutput(await api.post("rule_test", { sql, context }));
  });
  const submit = submitting(() => trial.run(contextOf(event, typed)));
  const form = event && html`
    <form onSubmit=${submit}>
      ${events.length > 1 && html`<${Field} label=${texts.event} value=${event.event} onInput=${setChosen}
        options=${events.map((one) => ({ value: one.event, label: one.title.en }))} />`}
      <div class="beside">${Object.entries(event.test_columns).map(([name, [sample, about]]) => html`
        <${Field} key=${event.event + name} label=${name} value=${typed[name] ?? firstOf(event, name, sample)}
          rows=${name === "payload" ? 3 : undefined} hint=${isTopic(event, name) ? texts.topicHint : about}
          onInput=${(/** @type {string} */ text) => setTyped({ ...typed, [name]: text })} />`)}</div>
      <button type="submit" disabled=${trial.isRunning}>${texts.run}</button>
    </form>`;
  return html`
    <${TrialCard} title=${texts.title} hint=${texts.hint} typed=${texts.sample} form=${form}
      filter=${firstFilter(sql)} isBusy=${trial.isRunning}
      onUse=${(/** @type {SeenMessage} */ row) => trial.run(storedContext(row))}>
      ${trial.error?.status === 412 ? html`<${Empty}>${texts.noMatch}<//>`
        : html`<${ErrorNote} error=${trial.error} />`}
      ${output !== undefined && html`<h3>${Array.isArray(output) ? texts.rows : texts.result}</h3><pre>
        ${JSON.stringify(output, null, 2)}</pre>`}
    <//>`;
};

/** @param {string} sql */
const firstFilter = (sql) => topicsOf(sql).find((topic) => !topic.startsWith("$events/")) ?? "#";

/** @param {RuleEvent} event @param {string} name */
const isTopic = (event, name) => event.event === PUBLISHED && name === "topic";

/** @param {RuleEvent} event @param {string} name @param {unknown} sample */
const firstOf = (event, name, sample) => {
  if (isTopic(event, name)) return "";
  return typeof sample === "string" ? sample : JSON.stringify(sample);
};

/**
 * What was typed as columns: numbers and objects where the samples are some.
 * @param {RuleEvent} event @param {Record<string, string>} typed
 */
export const contextOf = (event, typed) => {
  /** @type {Record<string, unknown>} */
  const context = { event_type: event.event.replace("$events/", "") };
  for (const [name, [sample]] of Object.entries(event.test_columns)) {
    const text = typed[name] ?? firstOf(event, name, sample);
    if (isTopic(event, name) && text === "") continue;
    context[name] = typeof sample === "string" ? text : parsed(text);
  }
  return context;
};

/** @param {string} text */
const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** A stored message as columns. @param {SeenMessage} row */
const storedContext = (row) => ({
  event_type: "message_publish",
  id: row.msgid, topic: row.topic, payload: row.text, qos: row.qos, flags: { retain: row.retain, dup: false },
  clientid: row.from_clientid, ...(row.from_username === null ? {} : { username: row.from_username }),
  pub_props: row.pub_props, timestamp: Date.parse(row.received_at), publish_received_at: Date.parse(row.received_at),
});
