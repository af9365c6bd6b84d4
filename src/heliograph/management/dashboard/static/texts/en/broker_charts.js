// @ts-check
/** English: the charts of the overview and of a node. */
export default {
  messages: "Messages",
  /** @type {Record<string, string>} */
  second: { drops: "Drops", connections: "Connections", bytes: "Bytes", turns: "Longest turn", memory: "Memory" },
  /** @type {Record<string, string>} */
  lines: {
    received: "In", sent: "Out",
    "dropped.queue_full": "Queue full", "dropped.expired": "Expired", "dropped.qos0_msg": "QoS 0 not queued",
    "dropped.too_large": "Too large", "dropped.not_authorized": "Not allowed",
    "dropped.no_subscribers": "No subscriber",
    "dropped.refused": "Refused by storage",
    live_connections: "Connected", connections: "Sessions",
    bytes_received: "In", bytes_sent: "Out", longest_turn_us: "Longest turn of the event loop",
    memory_bytes: "Memory of the process",
  },
};
