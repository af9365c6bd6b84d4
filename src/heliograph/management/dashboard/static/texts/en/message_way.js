// @ts-check
/** English: following one message. */
import { count, counted, duration } from "../../kernel/format.js";

export default {
  title: "Follow a message",
  wayTitle: (/** @type {string} */ topic) => `Message to ${topic}`,
  all: "All messages",
  messageId: "Message id",
  topic: "Topic filter",
  topicHint: "as room/# or +/alarm",
  client: "Client",
  clientHint: "publisher or receiver",
  since: "From",
  spans: [
    { value: "", label: "as long as they are kept" },
    { value: "600", label: "the last 10 minutes" },
    { value: "3600", label: "the last hour" },
    { value: "21600", label: "the last 6 hours" },
  ],
  reason: "Reason",
  reasonHint: "as queue_full",
  outcomeGroups: [
    { value: "", label: "anything" },
    { value: "dropped", label: "some or all clients do not get it" },
  ],
  search: "Search",
  found: "Recorded messages",
  none: "No recorded message matches.",
  noneAtAll: "No message has been recorded so far.",
  off: {
    text: "Nothing is recorded now. While the ways of messages are recorded, you see here who published each, "
      + "and what became of it at every receiver.",
    begin: "Begin to record",
    begun: "The ways of messages are recorded from now on.",
    more: "Which messages, and how many",
  },
  on: (/** @type {Api.RecordingState} */ { topics, clients, retention_s }) =>
    `Recorded are messages to ${topics.join(", ")}${clients.length ? ` of ${clients.join(", ")}` : ""}, `
      + `and kept for ${duration(retention_s)}.`,
  end: "Stop recording",
  ended: "Recording has stopped; what was recorded stays for its time.",
  missed: (/** @type {number} */ many) =>
    `${counted(many, "message was", "messages were")} not recorded: there were more than `
      + "diagnose.messages.rate or max_memory allows.",
  columns: {
    at: "Published", topic: "Topic", clientid: "By", qos: "QoS", outcome: "What became of it", receivers: "Receivers",
    why: "Why",
  },
  broker: "the broker",
  outcomes: /** @type {Record<string, { label: string, sign: string }>} */ ({
    delivered: { label: "delivered", sign: "good" },
    unacknowledged: { label: "in flight", sign: "warn" },
    partly_delivered: { label: "partly delivered", sign: "warn" },
    waiting: { label: "waits", sign: "warn" },
    not_delivered: { label: "not delivered", sign: "bad" },
    no_receiver: { label: "no receiver", sign: "warn" },
    stored: { label: "stored", sign: "" },
    kept: { label: "retained", sign: "" },
    refused: { label: "refused", sign: "bad" },
    taken: { label: "under way", sign: "" },
    delayed: { label: "delayed", sign: "" },
  }),
  reached: (/** @type {Api.WayObject} */ { delivered, receivers }) => `${count(delivered)} of ${count(receivers)}`,
  way: "Its way through the broker",
  stages: {
    publish: "Published", check: "Access, hooks, rules", store: "Storage", route: "Routing", receivers: "Receivers",
  },
  nothing: {
    check: "No hook or rule looked at it.", store: "It was not stored.", route: "It was not routed.",
    receivers: "It has no receiver.",
  },
  problem: "problem",
  publishedBy: (/** @type {Api.WholeWay} */ { clientid, username }) =>
    `by ${clientid || "the broker"}${username ? ` (user ${username})` : ""}`,
  notBegun: "Its PUBLISH was not recorded: what is shown came later.",
  retained: (/** @type {string} */ text) => `Retained: ${text}.`,
  size: (/** @type {string} */ size) => `${size} of payload`,
  quality: (/** @type {Api.WholeWay} */ { qos, retain }) => `QoS ${qos}${retain ? ", retained" : ""}`,
  expires: (/** @type {string} */ time) => `expires after ${time}`,
  madeBy: (/** @type {string[]} */ rules) => `made by the rule ${rules.join(", ")}`,
  summaryOf: (/** @type {Api.WayReceiver[]} */ receivers, /** @type {number} */ have) =>
    `${count(have)} of ${count(receivers.length)} have it`,
  after: (/** @type {string} */ time) => `after ${time}`,
  receivers: {
    clientid: "Receiver", filter: "Subscription", state: "State", times: "When", why: "Why",
    states: /** @type {Record<string, { label: string, sign: string }>} */ ({
      sent: { label: "sent", sign: "good" },
      acknowledged: { label: "acknowledged", sign: "good" },
      unacknowledged: { label: "sent, not acknowledged", sign: "warn" },
      waiting: { label: "waits in its queue", sign: "warn" },
      left_to_replay: { label: "waits in storage", sign: "warn" },
      dropped: { label: "dropped", sign: "bad" },
    }),
    waited: (/** @type {string} */ time) => `waited ${time}`,
    atOnce: "sent at once",
    sent: (/** @type {string} */ time) => `sent after ${time}`,
    acknowledged: (/** @type {string} */ time) => `acknowledged ${time} later`,
    dropped: (/** @type {string} */ time) => `dropped after ${time}`,
    repeated: (/** @type {number} */ many) => `sent ${counted(many, "time")}`,
    qos: (/** @type {number} */ qos) => `QoS ${qos}`,
  },
  leftOut: (/** @type {number} */ many) => `${count(many)} further steps were not kept.`,
  whichRule: "Which rule says so?",
  policy: {
    schema_validation: (/** @type {string} */ name) => `The validation ${name}`,
    message_transformation: (/** @type {string} */ name) => `The transformation ${name}`,
  },
  later: "The message that it became",
  ask: { label: "Why did this client not get it?", button: "Ask", hint: "a client id" },
  legend: { queued: "waited", sent: "until acknowledged" },
};
