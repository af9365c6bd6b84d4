// @ts-check
/** English: clients. */
import { count, counted } from "../../kernel/format.js";

export default {
  title: "Clients",
  state: "State",
  connected: "connected",
  away: "away",
  listener: "Listener",
  version: "MQTT",
  since: "Since",
  behind: "Behind",
  any: "any",
  search: "Search",
  searchBy: "Search by",
  by: [
    { value: "id", label: "Client id" },
    { value: "user", label: "User name" },
    { value: "address", label: "Address" },
  ],
  /** @type {Record<string, string>} */
  searchText: { id: "Client id contains", user: "User name contains", address: "IP address is" },
  states: [{ value: "connected", label: "connected" }, { value: "disconnected", label: "away" }],
  versions: [{ value: "5", label: "5.0" }, { value: "4", label: "3.1.1" }, { value: "3", label: "3.1" }],
  none: "No client matches. Take a filter away, or connect one.",
  noneSorted: "No client that matches has any of what the list is sorted by.",
  noMore: "No further client has any of it now.",
  inStorage: "Messages that wait in storage for durable sessions are not counted in the backlog: they would have to be "
    + "read for that. “Behind” says for how long there may be some.",
  onDisk: "Clients that have none of it are left out, as are sessions that are on the disk only.",
  asleep: "The numbers of a session that is on the disk only are not known (–) until it is read, as its own page does.",
  behindSince: (/** @type {string} */ moment) => `What was stored for it since ${moment} may wait in storage.`,
  found: (/** @type {number} */ many) => `${count(many)} found`,
  most: (/** @type {string} */ by) => `Those with most first: ${by.toLowerCase()}`,
  newest: "Newest first",
  beginsAnew: "The node has restarted: the list begins again.",
  // The selection, and what is done with many.
  chosen: (/** @type {number} */ many) => `${count(many)} chosen`,
  clear: "Choose none",
  kickChosen: "Kick the chosen …",
  banChosen: "Ban the chosen …",
  kickFound: "Kick all found …",
  banFound: "Ban all found …",
  csv: "Save as CSV",
  csvStop: "Stop",
  csvDone: (/** @type {number} */ rows) => `${counted(rows, "client is", "clients are")} in the file.`,
  csvCut: (/** @type {number} */ rows) => `The file has the first ${counted(rows, "client")}; more were found.`,
  csvName: "clients.csv",
  csvProgress: (/** @type {number} */ rows) => `${counted(rows, "client")} so far …`,
};
