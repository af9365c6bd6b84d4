// @ts-check
/** English: retained messages. */
import { count } from "../../kernel/format.js";

export default {
  title: "Retained messages",
  intro: "The last message of each topic that was published with the retain flag; who subscribes gets it at once.",
  filter: "Topic filter",
  filterHint: "+ stands for one level, # for all below.",
  publishedAt: "Published at",
  showNamed: (/** @type {string} */ topic) => `Show the message of ${topic}`,
  deleteNamed: (/** @type {string} */ topic) => `Delete the message of ${topic}`,
  deleteText: (/** @type {string} */ topic) =>
    `Who subscribes to ${topic} from now on gets no message until a new one is published there.`,
  deleted: (/** @type {string} */ topic) => `The retained message of ${topic} is deleted.`,
  none: "No retained message matches. A client makes one by publishing with the retain flag.",
  found: (/** @type {number} */ many) => `${count(many)} retained messages`,
  message: "Retained message",
};
