// @ts-check
/** A client of MQTT in the page: over a WebSocket listener of the node, as any other client of it. */
import { html, useState } from "../kernel/html.js";
import { PageHead } from "../parts/notice.js";
import { ConnectionCard } from "./mqtt_client/connection.js";
import { ExamplesCard } from "./mqtt_client/examples.js";
import { newConnection, newPublication } from "./mqtt_client/options.js";
import { PublishCard } from "./mqtt_client/publish.js";
import { MessagesCard } from "./mqtt_client/received.js";
import { SubscriptionsCard } from "./mqtt_client/subscriptions.js";
import texts from "../texts/en/mqtt_client.js";

// What was typed stays while the user looks at other pages.
const typed = { connection: newConnection(), publication: newPublication() };

export default function MqttClientPage() {
  const [connection, setConnection] = useState(typed.connection);
  const [publication, setPublication] = useState(typed.publication);
  typed.connection = connection;
  typed.publication = publication;
  /** @param {import("./mqtt_client/examples.js").Example} example */
  const load = (example) => {
    setConnection({ ...newConnection(), ...example.connection });
    setPublication({ ...newPublication(), ...example.publication });
  };
  return html`
    <${PageHead} title=${texts.title} />
    <div class="mqtt-client">
      <div>
        <${ConnectionCard} values=${connection} set=${(/** @type {Partial<typeof connection>} */ change) =>
          setConnection((old) => ({ ...old, ...change }))} />
        <${SubscriptionsCard} />
        <${PublishCard} values=${publication} set=${(/** @type {Partial<typeof publication>} */ change) =>
          setPublication((old) => ({ ...old, ...change }))} />
        <${ExamplesCard} connection=${connection} publication=${publication} onLoad=${load} />
      </div>
      <${MessagesCard} />
    </div>`;
}
