// @ts-check
/** From what is typed to what a client connects and publishes with. */
import { bytesOf } from "./payload.js";
import texts from "../../texts/en/mqtt_client.js";

/**
 * @typedef {{ url: string, clientid: string, username: string, password: string, version: string, clean: boolean,
 *   keepalive: string, expiry: string, willTopic: string, willPayload: string, willQos: string, willRetain: boolean }}
 *   Connection
 * @typedef {{ filter: string, qos: string, name: string, colour: number, state: "wanted" | "on" | "refused", answer:
 *   string }} Subscription
 * @typedef {{ topic: string, payload: string, format: string, qos: string, retain: boolean, contentType: string,
 *   responseTopic: string, correlation: string, expiry: string, user: string }} Publication
 */

/** @returns {Connection} */
export const newConnection = () => ({
  url: "", clientid: `dashboard-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`, username: "",
  password: "",
  version: "5", clean: true, keepalive: "60", expiry: "0", willTopic: "", willPayload: "", willQos: "0",
  willRetain: false,
});

/** @returns {Publication} */
export const newPublication = () => ({
  topic: "", payload: "", format: "text", qos: "0", retain: false, contentType: "", responseTopic: "", correlation: "",
  expiry: "", user: "",
});

/** @param {string} value */
const qosOf = (value) => /** @type {0 | 1 | 2} */ (Number(value));

/** @param {Connection} from @returns {import("mqtt").IClientOptions} */
export const connectOptions = (from) => ({
  clientId: from.clientid, clean: from.clean, keepalive: Number(from.keepalive),
  protocolVersion: from.version === "5" ? 5 : 4, protocolId: "MQTT",
  ...(from.username ? { username: from.username } : {}),
  ...(from.password ? { password: from.password } : {}),
  ...(from.willTopic ? { will: willOf(from) } : {}),
  ...(from.version === "5" ? { properties: { sessionExpiryInterval: Number(from.expiry) } } : {}),
  connectTimeout: 10_000, reconnectPeriod: 0, resubscribe: false, timerVariant: "native",
});

/** @param {Connection} from */
const willOf = (from) => ({
  topic: from.willTopic, payload: from.willPayload, qos: qosOf(from.willQos), retain: from.willRetain,
});

/**
 * @param {Publication} from
 * @param {boolean} isFive Whether the client speaks MQTT 5; before, messages have no properties.
 * @returns {{ payload: Uint8Array, options: import("mqtt").IClientPublishOptions }}
 * @throws {Error} What was typed cannot be sent.
 */
export const publishOptions = (from, isFive) => ({
  payload: bytesOf(from.payload, from.format),
  options: { qos: qosOf(from.qos), retain: from.retain, ...(isFive ? { properties: propertiesOf(from) } : {}) },
});

/** @param {Publication} from */
const propertiesOf = (from) => ({
  payloadFormatIndicator: from.format !== "hex",
  ...(from.expiry !== "" ? { messageExpiryInterval: Number(from.expiry) } : {}),
  ...(from.contentType ? { contentType: from.contentType } : {}),
  ...(from.responseTopic ? { responseTopic: from.responseTopic } : {}),
  ...(from.correlation ? { correlationData: bytesOf(from.correlation, "text") } : {}),
  ...(from.user.trim() ? { userProperties: userProperties(from.user) } : {}),
});

/** Lines `name: value`; a name may stand twice. @param {string} lines */
const userProperties = (lines) => {
  const made = /** @type {Map<string, string[]>} */ (new Map());
  for (const line of lines.split("\n").filter((one) => one.trim() !== "")) {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(texts.noProperty(line));
    const name = line.slice(0, at).trim();
    made.set(name, [...(made.get(name) ?? []), line.slice(at + 1).trim()]);
  }
  return Object.fromEntries(made);
};
