// @ts-check
/** English: bans. */
import { counted } from "../../kernel/format.js";

export default {
  title: "Bans",
  intro: "Who may not connect. A ban does not end connections that are there: kick those clients too.",
  kind: "What is banned",
  kinds: {
    clientid: "Client id",
    username: "User name",
    peerhost: "Address",
    clientid_re: "Client ids that match",
    username_re: "User names that match",
    peerhost_net: "Network",
  },
  who: "Who",
  whoHint: "A client id, user name or address; a regular expression for those that match; a network as 10.0.0.0/8.",
  reason: "Reason",
  by: "By",
  at: "Since",
  until: "Until",
  forever: "for ever",
  untilHint: "Empty: for ever.",
  actions: "Actions",
  add: "New ban",
  added: "The ban holds.",
  lift: "Lift",
  liftNamed: (/** @type {string} */ who) => `Lift the ban of ${who}`,
  liftText: (/** @type {string} */ who) => `${who} may connect again.`,
  lifted: (/** @type {string} */ who) => `${who} may connect again.`,
  none: "There are no bans.",
  search: "Search",
  exists: (/** @type {string} */ who) => `${who} is banned already.`,
  found: (/** @type {string} */ many) => counted(many, "ban"),
};
