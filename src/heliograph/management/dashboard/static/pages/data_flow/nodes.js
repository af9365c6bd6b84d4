// @ts-check
/** One thing on the way of data, as it is shown: what it is, how it is, and what runs past it. */
import { own } from "../../kernel/own.js";
import { link } from "../../kernel/router.js";
import { idOf, SIGNS } from "../integration/list.js";
import texts from "../../texts/en/data_flow.js";

/**
 * How one is: `good`, `warn` where it has failed, `bad` where it fails, `off` where it is disabled; empty for what has
 * no state.
 * @typedef {"" | "good" | "warn" | "bad" | "off"} Health
 * What runs along an edge: in a second, failures and rows that wait since it counts; null where it is not known.
 * @typedef {{ rate: number | null, failed: number, waiting: number }} Flow
 * @typedef {{ id: string, column: number, kind: string, name: string, more: string, state: string, health: Health,
 *   href: string, comes: Flow | null, goes: Flow | null }} FlowNode
 *   `comes`: of the edges from the left, where this node counts them; `goes`: of those to the right.
 */

export const INPUTS = 0;
export const RULES = 1;
export const ACTIONS = 2;
export const CONNECTORS = 3;
export const TARGETS = 4;

const SOURCE = /^\$(?:sources|bridges)\/(.+)$/;
const EVENT = "$events/";
const WORST = /** @type {Health[]} */ (["", "off", "good", "warn", "bad"]);

/** @param {Health[]} some @returns {Health} The worst. */
export const worst = (some) => WORST[Math.max(0, ...some.map((one) => WORST.indexOf(one)))];

/** @param {(number | null | undefined)[]} some The sum of those that are known. */
const sum = (some) => some.reduce((/** @type {number | null} */ all, one) => (one === null || one === undefined ? all
  : (all ?? 0) + one), null);

/** @param {(Flow | null)[]} some @returns {Flow} */
export const summed = (some) => ({ rate: sum(some.map((one) => one?.rate)), failed: sum(some.map((one) =>
  one?.failed)) ?? 0, waiting: sum(some.map((one) => one?.waiting)) ?? 0 });

/**
 * @param {string} id @param {number} column @param {string} kind @param {string} name
 * @param {Partial<FlowNode>} more
 * @returns {FlowNode}
 */
export const nodeOf = (id, column, kind, name, more) => ({ id, column, kind, name, more: "", state: "", health: "",
  href: "", comes: null, goes: null, ...more });

/**
 * @param {Api.IntegrationObject} row @param {Api.LiveState | undefined} live
 * @returns {{ state: string, health: Health }}
 */
const stateOf = (row, live) => {
  const state = live?.enable ?? row.enable ? live?.status ?? row.status : "disabled";
  return { state, health: state === "disabled" ? "off" : /** @type {Health} */ (own(SIGNS, state) ?? "") };
};

/** @param {Api.IntegrationObject} row @param {Api.LiveState | undefined} live */
export const connectorNode = (row, live) => nodeOf(`connector ${idOf(row)}`, CONNECTORS, texts.kinds.connector,
  row.name, { more: row.type, href: link("connector", idOf(row)), ...stateOf(row, live) });

/** @param {Api.IntegrationObject} row @param {Api.LiveState | undefined} live */
export const actionNode = (row, live) => {
  const now = stateOf(row, live);
  const { rate = null, failed = 0, queuing = 0 } = live?.metrics ?? {};
  const isFailed = now.health === "good" && failed > 0;
  return nodeOf(`action ${idOf(row)}`, ACTIONS, texts.kinds.action, row.name, { more: row.type,
    href: link("action", idOf(row)), ...now, ...(isFailed ? { state: "failed", health: "warn" } : {}),
    goes: { rate, failed, waiting: queuing } });
};

/** @param {Api.IntegrationObject} row @param {Api.LiveState | undefined} live */
export const sourceNode = (row, live) => {
  const { rate = null, dropped = 0 } = live?.metrics ?? {};
  return nodeOf(`source ${idOf(row)}`, INPUTS, texts.kinds.source, idOf(row), { more: row.connector ?? "",
    href: link("source", idOf(row)), ...stateOf(row, live), goes: { rate, failed: dropped, waiting: 0 } });
};

/** @param {string} from What FROM names. */
export const inputNode = (from) => {
  const [, source] = SOURCE.exec(from) ?? [];
  if (source) return nodeOf(`source ${source}`, INPUTS, texts.kinds.source, source, {});
  if (from.startsWith(EVENT)) return nodeOf(from, INPUTS, texts.kinds.event, from.slice(EVENT.length), {
    more: texts.kinds.event, href: link(from.includes("session") ? "subscriptions" : "clients") });
  return nodeOf(from, INPUTS, texts.kinds.topic, from, { href: link("topics", { search: from }) });
};

/** @param {Api.RuleObject} rule @param {Api.LiveRule | undefined} live */
export const ruleNode = (rule, live) => {
  const failed = (live?.failed_exception ?? 0) + (live?.actions_failed ?? 0);
  const now = (live?.failed_exception_rate ?? 0) + (live?.actions_failed_rate ?? 0);
  const isOn = live?.enable ?? rule.enable;
  const [state, health] = /** @type {[string, Health]} */ (!isOn ? ["disabled", "off"] : now ? ["failing", "bad"]
    : failed ? ["failed", "warn"] : ["runs", "good"]);
  return nodeOf(ruleId(rule.id), RULES, texts.kinds.rule, rule.id, { more: rule.name, state, health,
    href: link("rule", rule.id),
    comes: { rate: live?.matched_rate ?? null, failed: live?.failed_exception ?? 0, waiting: 0 },
    goes: rule.actions.length ? { rate: live?.passed_rate ?? null, failed: live?.actions_failed ?? 0, waiting: 0 }
      : null });
};

/** @param {string} id */
export const ruleId = (id) => `rule ${id}`;
