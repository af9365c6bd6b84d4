// @ts-check
/** English: delayed messages. */
import { count } from "../../kernel/format.js";

export default {
  title: "Delayed messages",
  intro: "Messages to $delayed/SECONDS/TOPIC wait here until they are published to TOPIC.",
  sentAt: "Sent at",
  due: "Published at",
  left: "In",
  showNamed: (/** @type {string} */ topic) => `Show the message to ${topic}`,
  deleteNamed: (/** @type {string} */ topic) => `Delete the message to ${topic}`,
  deleteText: (/** @type {string} */ topic, /** @type {string} */ due) =>
    `The message to ${topic} that is due at ${due} is never published.`,
  deleted: (/** @type {string} */ topic) => `The delayed message to ${topic} is deleted.`,
  none: "No message waits.",
  found: (/** @type {number} */ many) => `${count(many)} wait`,
  message: "Delayed message",
};
