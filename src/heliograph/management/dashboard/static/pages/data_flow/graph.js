// @ts-check
/** What rules read, the rules, their actions, connectors and targets, and what leads to what. */
import { own, recordOf } from "../../kernel/own.js";
import { link } from "../../kernel/router.js";
import { idOf } from "../integration/list.js";
import { ACTIONS, actionNode, connectorNode, CONNECTORS, inputNode, nodeOf, ruleId, ruleNode, sourceNode, summed,
  TARGETS, worst } from "./nodes.js";
import texts from "../../texts/en/data_flow.js";

/**
 * @typedef {import("./nodes.js").FlowNode} FlowNode
 * @typedef {{ from: string, to: string }} Edge
 * @typedef {{ nodes: Map<string, FlowNode>, edges: Edge[] }} Graph
 * @typedef {Record<string, Api.LiveState | undefined>} States
 * @typedef {{ rules: Api.RuleObject[], actions: Api.IntegrationObject[], connectors: Api.IntegrationObject[],
 *   sources: Api.IntegrationObject[] }} Found
 * @typedef {{ rules: Record<string, Api.LiveRule | undefined>, actions: States, connectors: States,
 *   sources: States }} Live
 */

/** Where a connector leads: the first of these settings that is a text. */
const PLACES = ["url", "server", "servers", "bootstrap_hosts", "place", "endpoint", "host", "hosts", "uri", "address"];

/** @param {Found} found @param {Live} live @returns {Graph} */
export const graphOf = (found, live) => {
  const graph = new Drawn();
  for (const one of found.connectors) graph.put(connectorNode(one, own(live.connectors, idOf(one))));
  for (const one of found.actions) graph.put(actionNode(one, own(live.actions, idOf(one))));
  for (const one of found.sources) graph.put(sourceNode(one, own(live.sources, idOf(one))));
  for (const one of found.actions) graph.join(`action ${idOf(one)}`, `connector ${one.type}:${one.connector}`);
  for (const rule of found.rules) addRule(graph, rule, own(live.rules, rule.id));
  for (const one of found.connectors) addTarget(graph, one);
  for (const one of graph.nodes.values()) if (one.column === CONNECTORS) sumUp(graph, one);
  return graph;
};

class Drawn {
  constructor() {
    /** @type {Map<string, FlowNode>} */
    this.nodes = new Map();
    /** @type {Edge[]} */
    this.edges = [];
  }

  /** @param {FlowNode} node */
  put(node) {
    if (!this.nodes.has(node.id)) this.nodes.set(node.id, node);
  }

  /** @param {string} from @param {string} to */
  join(from, to) {
    if (this.nodes.has(from) && this.nodes.has(to)) this.edges.push({ from, to });
  }
}

/** @param {Drawn} graph @param {Api.RuleObject} rule @param {Api.LiveRule | undefined} live */
const addRule = (graph, rule, live) => {
  const id = ruleId(rule.id);
  graph.put(ruleNode(rule, live));
  for (const from of new Set(rule.from)) {
    const input = inputNode(from);
    graph.put(input);
    graph.join(input.id, id);
  }
  for (const action of rule.actions) graph.join(id, outputOf(graph, rule.id, action));
};

/** @param {Drawn} graph @param {string} rule @param {Api.RuleObject["actions"][number]} action @returns {string} */
const outputOf = (graph, rule, action) => {
  if (typeof action === "string" && action.includes(":")) return `action ${action}`;
  const name = typeof action === "string" ? action : String(action.function);
  const topic = name === "republish" && typeof action !== "string" ? String(recordOf(action.args).topic ?? "") : "";
  const hrefs = /** @type {Record<string, string>} */ ({ console: link("diagnose"), pipeline: link("pipeline") });
  const id = `function ${name} ${topic}`;
  graph.put(nodeOf(id, ACTIONS, texts.kinds.action, own(texts.functions, name) ?? name,
    { more: topic, state: "atOnce", href: own(hrefs, name) ?? link("rule", rule) }));
  return id;
};

/** Several connectors may lead to one place. @param {Drawn} graph @param {Api.IntegrationObject} row */
const addTarget = (graph, row) => {
  const settings = recordOf(row);
  const place = PLACES.map((name) => settings[name]).find((one) => typeof one === "string" && one !== "");
  if (!place) return;
  const name = String(place).replace(/^\w+:\/\//, "");
  const [from, to] = [`connector ${idOf(row)}`, `target ${name}`];
  const { health = "", state = "" } = graph.nodes.get(from) ?? {};
  const before = graph.nodes.get(to);
  if (before && worst([before.health, health]) !== before.health) Object.assign(before, { health, state });
  graph.put(nodeOf(to, TARGETS, texts.kinds.target, name, { more: row.type, health, state,
    href: link("connector", idOf(row)) }));
  graph.join(from, to);
};

/** What all actions of a connector bring there. @param {Drawn} graph @param {FlowNode} connector */
const sumUp = (graph, connector) => {
  const from = graph.edges.filter(({ to }) => to === connector.id).map((edge) => graph.nodes.get(edge.from));
  if (from.length) connector.goes = summed(from.map((one) => one?.goes ?? null));
};
