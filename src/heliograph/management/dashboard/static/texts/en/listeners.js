// @ts-check
/** English: listeners. */
import { counted } from "../../kernel/format.js";

export default {
  title: "Listeners",
  intro: "Where clients connect. A listener begins, changes and ends while the node runs; the others notice nothing.",
  id: "Listener",
  state: "State",
  accepting: "accepting",
  stopped: "stopped",
  disabled: "switched off",
  address: "Address",
  connections: "Connections",
  ofMost: (/** @type {string} */ now, /** @type {string} */ most) => `${now} of ${most}`,
  certificate: "TLS certificate",
  noTls: "no TLS",
  unknown: "expiry not known",
  expired: "expired",
  expires: (/** @type {string} */ time, /** @type {number} */ days) => `until ${time} (${days} d)`,
  actions: "Actions",
  start: "Start",
  stop: "Stop",
  change: "Change",
  named: {
    start: (/** @type {string} */ id) => `Start ${id}`,
    stop: (/** @type {string} */ id) => `Stop ${id}`,
    change: (/** @type {string} */ id) => `Change ${id}`,
    remove: (/** @type {string} */ id) => `Delete ${id}`,
  },
  started: (/** @type {string} */ id) => `${id} accepts connections.`,
  ended: (/** @type {string} */ id) => `${id} is stopped.`,
  saved: (/** @type {string} */ id) => `${id} is changed.`,
  made: "The listener is made.",
  removed: (/** @type {string} */ id) => `${id} is deleted.`,
  stopText: (/** @type {string} */ id, /** @type {string} */ count) =>
    `${id} accepts nothing from now on, also after a restart, and its `
      + `${counted(count, "connection ends", "connections end")}.`,
  removeText: (/** @type {string} */ id, /** @type {string} */ count) =>
    `${id} is taken out of the configuration, and its ${counted(count, "connection ends", "connections end")}.`,
  add: "New listener",
  type: "Type",
  types: {
    tcp: "tcp: MQTT over TCP",
    ssl: "ssl: MQTT over TLS",
    ws: "ws: MQTT over WebSocket",
    wss: "wss: MQTT over WebSocket with TLS",
  },
  name: "Name",
  nameHint: "Letters, digits, - and _; unique among those of its type.",
  changeIntro: "Most settings hold for new connections. Another address replaces the listener: its connections end.",
};
