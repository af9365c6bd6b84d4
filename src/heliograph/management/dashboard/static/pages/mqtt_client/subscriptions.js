// @ts-check
/** What the client is subscribed to: each with a colour and, where the user likes, a name. */
import { html, submitting, useState } from "../../kernel/html.js";
import { useStore } from "../../kernel/store.js";
import { Field } from "../../parts/field.js";
import { Table } from "../../parts/table.js";
import { subscribe, subscriptions, unsubscribe } from "./client.js";
import texts from "../../texts/en/mqtt_client.js";

const STATES = { wanted: "", on: "good", refused: "bad" };

/** @typedef {import("./options.js").Subscription} Subscription */

/** @type {import("../../parts/table.js").Column<Subscription>[]} */
const COLUMNS = [
  { key: "filter", title: texts.filter, kind: "code", isHead: true, show: (one) =>
    html`<span class=${`dot colour-${one.colour}`} aria-hidden="true"></span>${one.filter}` },
  { key: "name", title: texts.name },
  { key: "state", title: texts.qos, show: (one) => html`<span
    class=${`badge ${STATES[one.state]}`}>${one.answer || texts.wanted}</span>` },
  { key: "end", title: "", kind: "actions", show: (one) => html`<button type="button"
    aria-label=${texts.unsubscribe(one.filter)} onClick=${() => unsubscribe(one.filter)}>✕</button>` },
];

export const SubscriptionsCard = () => {
  const list = useStore(subscriptions);
  const [filter, setFilter] = useState("");
  const [qos, setQos] = useState("1");
  const [name, setName] = useState("");
  const submit = submitting(() => {
    subscribe(filter, qos, name);
    setFilter("");
    setName("");
  });
  return html`
    <section class="card" aria-labelledby="subscriptions-title">
      <h2 id="subscriptions-title">${texts.subscriptions}</h2>
      <form class="filters" onSubmit=${submit}>
        <${Field} label=${texts.filter} value=${filter} onInput=${setFilter} isRequired autocomplete="off"
          spellcheck=${false} />
        <${Field} label=${texts.qos} value=${qos} options=${["0", "1", "2"]} onInput=${setQos} />
        <${Field} label=${texts.name} value=${name} onInput=${setName} title=${texts.nameHint} autocomplete="off"
          maxlength="60" />
        <button type="submit">${texts.subscribe}</button>
      </form>
      <${Table} caption=${texts.subscriptions} columns=${COLUMNS} rows=${list}
        rowKey="filter" empty=${texts.noSubscriptions} />
    </section>`;
};
