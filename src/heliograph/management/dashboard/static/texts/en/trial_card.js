// @ts-check
/** English: something is tried on a stored message. */
export default {
  stored: "On a stored message",
  filter: "Topic filter",
  since: "Stored in the last",
  spans: { 600: "10 minutes", 3600: "hour", 86400: "day", 604800: "7 days" },
  search: "Search",
  caption: "Stored messages, the newest first",
  at: "Stored at",
  topic: "Topic",
  client: "Client",
  payload: "Payload",
  use: "Try on it",
  binary: (/** @type {string} */ size) => `not text, ${size}`,
  notText: "The payload of this message is not text.",
  tooLarge: (/** @type {string} */ size) => `${size}: too large to try something on it here`,
  none:
    "No stored message of this time matches. Durable storage keeps the topics of durable_storage.messages.topics.",
};
