// @ts-check
/** What the user keeps in this browser: all that is typed but the password. */
import { html, useState } from "../../kernel/html.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import { subscribe, subscriptions, unsubscribe } from "./client.js";
import texts from "../../texts/en/mqtt_client.js";

const KEY = "heliograph-mqtt-examples";
const MOST = 50;

/**
 * @typedef {{ name: string, connection: import("./options.js").Connection, publication:
 *   import("./options.js").Publication,
 *   subscriptions: { filter: string, qos: string, name: string }[] }} Example
 * @returns {Example[]}
 */
const read = () => {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
};

/**
 * @param {{ connection: import("./options.js").Connection, publication: import("./options.js").Publication,
 *   onLoad: (example: Example) => void }} props
 */
export const ExamplesCard = ({ connection, publication, onLoad }) => {
  const [list, setList] = useState(read);
  const [name, setName] = useState("");
  const [error, setError] = useState(/** @type {import("../../kernel/resource.js").Failure | null} */ (null));
  const keep = (/** @type {Example[]} */ next) => {
    try {
      if (next.length > MOST) throw new Error();
      localStorage.setItem(KEY, JSON.stringify(next));
      setList(next);
      setError(null);
      return true;
    } catch {
      setError({ message: texts.full });
      return false;
    }
  };
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    const kept = subscriptions.get().map(({ filter, qos, name: called }) => ({ filter, qos, name: called }));
    const one = { name, connection: { ...connection, password: "" }, publication, subscriptions: kept };
    if (keep([...list.filter((other) => other.name !== name), one])) tell(texts.saved(name));
  };
  const load = (/** @type {Example} */ example) => {
    for (const { filter } of subscriptions.get()) unsubscribe(filter);
    for (const one of example.subscriptions) subscribe(one.filter, one.qos, one.name);
    setName(example.name);
    onLoad(example);
  };
  return html`
    <section class="card" aria-labelledby="examples-title">
      <h2 id="examples-title">${texts.examples}</h2>
      <form class="filters" onSubmit=${save}>
        <${Field} label=${texts.exampleName} value=${name} isRequired maxlength="60" onInput=${setName}
          autocomplete="off" />
        <button type="submit">${texts.save}</button>
      </form>
      <${ErrorNote} error=${error} />
      <ul class="plain">${list.map((one) => html`
        <li key=${one.name} class="actions"><span>${one.name}</span>
          <button type="button" aria-label=${texts.loadOf(one.name)} onClick=${() => load(one)}>${texts.load}</button>
          <button type="button" class="plain" aria-label=${texts.removeOf(one.name)}
            onClick=${() => keep(list.filter((other) => other !== one))}>✕</button>
        </li>`)}</ul>
    </section>`;
};
