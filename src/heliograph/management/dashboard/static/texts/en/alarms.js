// @ts-check
/** English: alarms. */
export default {
  title: "Alarms",
  none: "No alarm is open.",
  /** @param {string} value */
  since: (value) => `for ${value}`,
  details: "Details",
  open: "Open",
  history: "Ended",
  end: "End",
  /** @param {string} name */
  endTitle: (name) => `End the alarm ${name}?`,
  endText: "Its cause stays: the alarm comes back when the cause ends and comes again.",
  /** @param {string} name */
  endNamed: (name) => `End ${name}`,
  /** @param {string} name */
  ended: (name) => `The alarm ${name} has ended.`,
  clear: "Forget those that ended",
  clearTitle: "Forget all alarms that ended?",
  clearText: "Alarms that are open stay.",
  cleared: "The alarms that ended are forgotten.",
  noHistory: "No alarm has ended since the history was cleared, or the node started.",
  name: "Alarm",
  severity: "Severity",
  /** @type {Record<string, string>} */
  severities: { critical: "critical", warning: "warning" },
  message: "What was wrong",
  began: "Began",
  endedAt: "Ended",
  lasted: "Lasted",
  node: "Node",
};
