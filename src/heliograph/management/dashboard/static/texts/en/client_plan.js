// @ts-check
/** English: kicking and banning clients, one or many. */
import { count } from "../../kernel/format.js";

const clients = (/** @type {number} */ many) => (many === 1 ? "1 client" : `${count(many)} clients`);

export default {
  kickTitle: "Kick clients",
  banTitle: "Ban clients",
  kickPlan: (/** @type {number} */ many) =>
    `The connections and sessions of ${clients(many)} end, with their subscriptions and the messages that wait. ` +
    "They may connect again.",
  banPlan: (/** @type {number} */ many) =>
    `${clients(many)} may not connect any more with these ids, until you lift the bans.`,
  more: (/** @type {number} */ many) => `More match than one plan takes: this one is for the newest ${count(many)}.`,
  nobody: "No client matches any more.",
  first: "The first of them",
  still: "Later clients that match are not touched: the plan is for these.",
  kick: (/** @type {number} */ many) => `Kick ${clients(many)}`,
  ban: (/** @type {number} */ many) => `Ban ${clients(many)}`,
  reason: "Reason",
  reasonHint: "For people who look at the ban later.",
  until: "Until",
  untils: [
    { value: "", label: "for ever" },
    { value: "3600", label: "1 hour" },
    { value: "86400", label: "1 day" },
    { value: "604800", label: "7 days" },
  ],
  alsoKick: "End connections and sessions now, too",
  kicked: (/** @type {Api.KickedClients} */ done) =>
    `${clients(done.kicked)} kicked${done.gone ? `, ${count(done.gone)} had gone before` : ""}.`,
  banned: (/** @type {Api.BannedClients} */ done) =>
    `${clients(done.banned)} banned${done.banned_before ? `, ${count(done.banned_before)} were before` : ""}.`,
};
