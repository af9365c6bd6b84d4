// @ts-check
/** English: diagnose. */
export default {
  title: "Diagnose",
  /** @type {Record<string, string>} */
  tabs: { slow: "Slow subscriptions", turns: "Long turns", memory: "Memory", log: "Log" },
  client: "Client", topic: "Topic", took: "Took", last: "Slow last at", node: "Node", at: "Ended at",
  /** @param {string} threshold @param {number} most */
  looksFor: (threshold, most) =>
    `Messages that take longer than ${threshold} to reach a subscriber; the ${most} slowest are listed.`,
  off: "Nothing is measured: the search for slow subscriptions is off.",
  offForYou: "An administrator can switch it on here.",
  turnedOn: "Slow subscriptions are looked for from now on.",
  noSlow: "No subscription is slow.",
  settings: "Settings",
  clear: "Forget all",
  clearTitle: "Forget all slow subscriptions?",
  clearText: "Those that are still slow come back with their next message.",
  cleared: "The slow subscriptions are forgotten.",
  saved: "The settings hold from now on.",
  enable: "Look for slow subscriptions",
  threshold: "Slow is what takes longer than",
  thresholdHint: "A duration, as 500ms or 2s.",
  expires: "Forget what was not slow for",
  expiresHint: "A duration, as 300s.",
  most: "List so many",
  measuredAs: "Measured",
  /** @type {Record<string, string>} */
  measured: {
    whole: "from publish to acknowledgement",
    internal: "within the broker",
    response: "from sending to acknowledgement",
  },
  turnsHint: "While the event loop is in one turn, all clients wait. These took 20 ms or more, of the last hundred.",
  /** @param {string} value */
  longest: (value) => `The longest that the event loop was late since the start: ${value}.`,
  noTurns: "No turn of the loop took 20 ms or more since the start of the node.",
  ran: "What ran, the innermost call first",
  notSeen: "not seen: too short, or compiled code",
  level: "Least severe level",
  search: "Contains",
  follow: "Follow what comes",
  noEntries: "The log has no such entry. What is below the level of log.console and log.file is not written.",
};
