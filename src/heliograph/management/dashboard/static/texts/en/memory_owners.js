// @ts-check
/** English: who holds memory. */
export default {
  title: "Memory by owner",
  /** @param {string} used @param {string} limit */
  used: (used, limit) => (limit ? `${used} of ${limit} are used.` : `${used} are used; there is no limit.`),
  /** @param {number} stage */
  stage: (stage) => `Memory is short: stage ${stage}.`,
  /** @type {Record<string, string>} */
  owners: {
    sessions: "Sessions", subscriptions: "Subscriptions", queues: "Queues of clients", qos2: "QoS 2 exchanges",
    retained: "Retained messages",
    delayed: "Delayed messages", shared_groups: "Shared groups", caches: "Routes", storage: "Storage",
    aliases: "Topic aliases", message_ways: "Ways of messages", refusals: "Refused clients",
    connections: "Connections", interpreter: "Interpreter and libraries", free: "Free, kept for later", other: "Other",
  },
};
