// @ts-check
/** English: the overview. */
import { counted } from "../../kernel/format.js";

export default {
  title: "Overview",
  connections: "Connected",
  /** @param {string} value */
  sessions: (value) => counted(value, "session"),
  received: "Messages in",
  sent: "Messages out",
  dropped: "Dropped",
  subscriptions: "Subscriptions",
  /** @param {string} value */
  filters: (value) => counted(value, "filter"),
  retained: "Retained",
  turn: "Longest turn",
  memory: "Memory",
  /** @param {string} value */
  of: (value) => `of ${value}`,
  openAlarms: "Open alarms",
  nodes: "Nodes",
  node: "Node",
  state: "State",
  running: "running",
  silent: "does not answer",
  uptime: "Up for",
  cpu: "CPU",
  /** @param {number} value */
  alarms: (value) => (value === 0 ? "Alarms" : `Alarms: ${value} open`),
};
