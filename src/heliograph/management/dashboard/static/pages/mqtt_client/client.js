// @ts-check
/** The client: it stays connected while the user looks at other pages, and ends with the login. */
import mqtt from "../../vendor/mqtt.mjs";
import { session } from "../../kernel/session.js";
import { createStore } from "../../kernel/store.js";
import { addMessage, clearMessages } from "./messages.js";
import { connectOptions, publishOptions } from "./options.js";
import { problemOf } from "./problems.js";
import texts from "../../texts/en/mqtt_client.js";

/**
 * @typedef {import("./options.js").Subscription} Subscription
 * @typedef {{ state: "off" | "begins" | "on", problem: string, url: string, clientid: string, version: string,
 *   isKnown: boolean }} Status
 */
const COLOURS = 5;
/** @type {Status} */
const OFF = { state: "off", problem: "", url: "", clientid: "", version: "5", isKnown: false };

export const status = createStore(OFF);
export const subscriptions = createStore(/** @type {Subscription[]} */ ([]));

/** @type {import("mqtt").MqttClient | null} */
let client = null;

/** Nothing of the old connection is heard any more. @param {string} problem */
const end = (problem) => {
  client?.removeAllListeners();
  client?.on("error", () => {}); // what fails while it closes is of no interest
  client?.end(true);
  client = null;
  status.set({ ...status.get(), state: "off", problem });
};

export const disconnect = () => {
  client?.removeAllListeners();
  client?.on("error", () => {});
  client?.end(); // with a DISCONNECT packet, so no will is published
  client = null;
  status.set({ ...status.get(), state: "off", problem: "" });
};

/** @param {import("./options.js").Connection} wanted */
export const connect = (wanted) => {
  end("");
  const { url, clientid, version } = wanted;
  status.set({ state: "begins", problem: "", url, clientid, version, isKnown: false });
  const problem = problemOf(url);
  try {
    client = mqtt.connect(url, connectOptions(wanted));
  } catch (error) {
    end(problem.ofError(error));
    return;
  }
  client.on("connect", (packet) => {
    status.set({ ...status.get(), state: "on", isKnown: packet.sessionPresent });
    for (const one of subscriptions.get()) ask(one);
  });
  client.on("error", (error) => end(problem.ofError(error)));
  client.on("disconnect", (packet) => end(problem.ofReason(packet.reasonCode ?? 0)));
  client.on("close", () => end(status.get().state === "on" ? texts.lost : problem.unanswered()));
  client.on("message", (topic, payload, packet) => addMessage({
    isSent: false, topic, payload, qos: packet.qos, retain: packet.retain, properties: packet.properties ?? {},
  }));
};

/** @param {string} filter @param {Partial<Subscription>} change */
const change = (filter, change) =>
  subscriptions.set(subscriptions.get().map((one) => (one.filter === filter ? { ...one, ...change } : one)));

/** @param {Subscription} one */
const ask = ({ filter, qos }) => {
  client?.subscribe(filter, { qos: /** @type {0 | 1 | 2} */ (Number(qos)) }, (error, granted) => {
    const code = granted?.[0]?.qos ?? 0;
    if (error || code >= 128) change(filter, { state: "refused",
      answer: texts.refused(mqtt.ReasonCodes[/** @type {1} */ (code)] ?? error?.message ?? "") });
    else change(filter, { state: "on", answer: texts.granted(code) });
  });
};

/** @param {string} filter @param {string} qos @param {string} name */
export const subscribe = (filter, qos, name) => {
  const others = subscriptions.get().filter((one) => one.filter !== filter);
  const taken = new Set(others.map(({ colour }) => colour));
  const colour = [...Array(COLOURS).keys()].find((one) => !taken.has(one)) ?? others.length % COLOURS;
  /** @type {Subscription} */
  const one = { filter, qos, name, colour, state: "wanted", answer: "" };
  subscriptions.set([...others, one]);
  if (status.get().state === "on") ask(one);
};

/** @param {string} filter */
export const unsubscribe = (filter) => {
  subscriptions.set(subscriptions.get().filter((one) => one.filter !== filter));
  if (status.get().state === "on") client?.unsubscribe(filter);
};

/**
 * Publish, and wait for what the QoS has the broker say.
 * @param {import("./options.js").Publication} wanted
 * @returns {Promise<void>}
 */
export const publish = async (wanted) => {
  const { payload, options } = publishOptions(wanted, status.get().version === "5");
  if (!client) throw new Error(texts.notConnected);
  await client.publishAsync(wanted.topic, payload, options);
  addMessage({ isSent: true, topic: wanted.topic, payload, qos: Number(wanted.qos), retain: wanted.retain,
    properties: options.properties ?? {} });
};

session.subscribe(() => {
  if (session.get().state !== "out") return;
  disconnect();
  clearMessages();
  subscriptions.set([]);
});
