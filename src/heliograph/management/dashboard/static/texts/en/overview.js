// @ts-check
/** English: the overview. */
export default {
  title: "Overview",
  connections: "Connected",
  /** @param {string} value */
  sessions: (value) => `${value} sessions`,
  received: "Messages in",
  sent: "Messages out",
  dropped: "Dropped",
  subscriptions: "Subscriptions",
  /** @param {string} value */
  filters: (value) => `${value} filters`,
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
