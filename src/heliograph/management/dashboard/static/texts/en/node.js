// @ts-check
/** English: a node. */
import { counted } from "../../kernel/format.js";

export default {
  unknown: "There is no node of that name.",
  overview: "All nodes",
  silent: "The node does not answer.",
  uptime: "Up for",
  connections: "Connected",
  /** @param {string} value */
  sessions: (value) => counted(value, "session"),
  received: "Messages in",
  sent: "Messages out",
  dropped: "Dropped",
  cpu: "CPU",
  turn: "Longest turn",
  memory: "Memory",
  alarms: "Open alarms",
  storage: "Storage",
  noStorage: "Nothing is stored on the disk.",
  database: "Database",
  state: "State",
  works: "works",
  closed: "closed",
  written: "Written",
  commits: "Commits",
  lastCommit: "Last commit took",
  waiting: "Waiting",
  size: "Size",
  streams: "Streams",
  refused: "Refused",
  /** @param {number} runs @param {number} restarts @param {number} damaged */
  reader: (runs, restarts, damaged) =>
    `The storage reader ${runs ? "runs" : "does not run"}; it was started again ${counted(restarts, "time")} and met ` +
    `${damaged} damaged places.`,
  listeners: "Listeners",
  noListener: "No listener is configured.",
  listener: "Listener",
  differing: "Settings that differ from their defaults",
  noneDiffers: "Every setting has its default.",
  setting: "Setting",
  value: "Value",
  origin: "Comes from",
};
