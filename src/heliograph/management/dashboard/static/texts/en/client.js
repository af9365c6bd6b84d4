// @ts-check
/** English: one client. */
import { count } from "../../kernel/format.js";

export default {
  tabs: {
    facts: "Overview", subscriptions: "Subscriptions", inflight: "In flight", queue: "Queue",
    disconnects: "Disconnects", access: "Access cache",
  },
  tabsLabel: "Parts of this client",
  back: "All clients",
  gone: "There is no session of this client now. What is remembered of its connections stands below.",
  refused: "What keeps this client out, or was refused to it since the node started",
  kick: "Kick …",
  kickTitle: "Kick a client",
  kickText: (/** @type {string} */ id) =>
    `The connection and the session of ${id} end, with its subscriptions and the messages that wait. It may ` +
    "connect again.",
  kickAct: (/** @type {string} */ id) => `Kick ${id}`,
  kicked: (/** @type {string} */ id) => `${id} is kicked.`,
  ban: "Ban …",
  trace: "Trace it",
  ways: "Follow its messages",
  connection: "Connection",
  session: "Session",
  traffic: "Traffic since it connected",
  drops: "Dropped",
  state: "State",
  durableYes: "on the disk: it outlasts the broker. What comes while the client is away waits in durable storage, not "
    + "in the queue",
  durableNo: "in memory",
  never: "never",
  withConnection: "ends with the connection",
  behindSince: (/** @type {string} */ moment) =>
    `${moment}: what was stored for it since then may wait in storage`,
  of: (/** @type {number} */ held, /** @type {number | string} */ most) =>
    `${count(held)} of ${typeof most === "number" ? count(most) : "any number"}`,
  yes: "yes",
  no: "no",
  ago: (/** @type {string} */ moment, /** @type {string} */ long) => `${moment} (${long} ago)`,
  messages: (/** @type {Api.ClientObject} */ c, /** @type {"recv" | "send"} */ way) =>
    `${count(c[`${way}_msg`])} messages (QoS 0: ${count(c[`${way}_msg.qos0`])}, 1: ${count(c[`${way}_msg.qos1`])}, ` +
    `2: ${count(c[`${way}_msg.qos2`])})`,
};
