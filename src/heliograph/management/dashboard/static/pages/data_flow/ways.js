// @ts-check
/** The ways through the picture: which of them a user wants to see, and which are shown as one. */
import { link } from "../../kernel/router.js";
import { ACTIONS, CONNECTORS, INPUTS, nodeOf, RULES, summed, worst } from "./nodes.js";
import texts from "../../texts/en/data_flow.js";

/** So many rules are shown one by one; of more, those that lead to the same connectors are one. */
const RULES_MAX = 16;
const GROUP_MIN = 4;

/**
 * @typedef {import("./graph.js").Graph} Graph
 * @typedef {import("./nodes.js").FlowNode} FlowNode
 */

/** @param {FlowNode} node */
const isFailing = ({ health }) => health === "warn" || health === "bad";

/** @param {Graph} graph How many things fail, or have failed. */
export const failingCount = ({ nodes }) => [...nodes.values()].filter((node) => node.column < 4 && isFailing(node))
  .length;

/** What lies before and behind each one. @param {Graph} graph */
const neighbours = ({ edges }) => {
  /** @type {Map<string, string[]>} */
  const before = new Map();
  /** @type {Map<string, string[]>} */
  const behind = new Map();
  for (const { from, to } of edges) {
    behind.set(from, [...behind.get(from) ?? [], to]);
    before.set(to, [...before.get(to) ?? [], from]);
  }
  return { before, behind };
};

/** Each rule with all that it reads and leads to; and what no rule has. @param {Graph} graph @returns {FlowNode[][]} */
const waysOf = (graph) => {
  const { before, behind } = neighbours(graph);
  /** @type {(id: string) => string[]} */
  const after = (id) => (behind.get(id) ?? []).flatMap((one) => [one, ...after(one)]);
  const heads = [...graph.nodes.values()].filter(({ id, column }) => column === RULES
    || (column === INPUTS ? !behind.has(id) : !before.has(id)));
  return heads.map(({ id }) => [...new Set([id, ...before.get(id) ?? [], ...after(id)])].map((one) =>
    /** @type {FlowNode} */ (graph.nodes.get(one))));
};

/**
 * The ways on which something has a text in its name, and fails where that is wanted.
 * @param {Graph} graph @param {string} text @param {boolean} hasFailure @returns {Graph}
 */
export const narrowed = (graph, text, hasFailure) => {
  const wanted = text.trim().toLowerCase();
  if (!wanted && !hasFailure) return graph;
  const ways = waysOf(graph).filter((way) => (!hasFailure || way.some(isFailing))
    && (!wanted || way.some(({ name, more, kind }) => `${kind} ${name} ${more}`.toLowerCase().includes(wanted))));
  const kept = new Set(ways.flat().map(({ id }) => id));
  return { nodes: new Map([...graph.nodes].filter(([id]) => kept.has(id))),
    edges: graph.edges.filter(({ from, to }) => kept.has(from) && kept.has(to)) };
};

/**
 * Where there are many rules, those that lead to the same connectors become one, with what they alone read and use.
 * @param {Graph} graph
 * @param {string} open The group that is shown one by one.
 * @param {Record<string, unknown>} query Of the page.
 * @returns {Graph}
 */
export const folded = (graph, open, query) => {
  const groups = groupsOf(graph);
  /** @type {Map<string, string>} Of each that is folded, the id of what stands for it. */
  const moved = new Map();
  for (const [key, ids] of groups) {
    if (ids.length >= GROUP_MIN && key !== open) ids.forEach((id) => moved.set(id, key));
  }
  if (moved.size === 0) return graph;
  const { before, behind } = neighbours(graph);
  for (const [column, rules] of /** @type {const} */ ([[INPUTS, behind], [ACTIONS, before]])) {
    /** @type {Map<string, string[]>} */
    const alone = new Map(); // what the rules of one group alone read or use
    for (const node of graph.nodes.values()) {
      const [key, other] = new Set((rules.get(node.id) ?? []).map((one) => moved.get(one)));
      if (node.column === column && key !== undefined && other === undefined) {
        alone.set(key, [...alone.get(key) ?? [], node.id]);
      }
    }
    for (const [key, ids] of alone) if (ids.length >= GROUP_MIN) ids.forEach((id) => moved.set(id, key));
  }
  return merged(graph, moved, (key) => link("data_flow", { ...query, open: key }));
};

/** Rules by the connectors that they lead to, else by their actions. @param {Graph} graph */
const groupsOf = (graph) => {
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  const ways = waysOf(graph).filter(([head]) => head.column === RULES);
  if (ways.length <= RULES_MAX) return groups;
  for (const way of ways) {
    const of = (/** @type {number} */ column) => way.filter((one) => one.column === column).map(({ id }) => id).sort();
    const key = (of(CONNECTORS).length ? of(CONNECTORS) : of(ACTIONS)).join(", ") || "-";
    groups.set(key, [...groups.get(key) ?? [], way[0].id]);
  }
  return groups;
};

/** @param {Graph} graph @param {Map<string, string>} moved @param {(key: string) => string} hrefOf @returns {Graph} */
const merged = (graph, moved, hrefOf) => {
  /** @type {Map<string, FlowNode[]>} */
  const parts = new Map();
  const idOf = (/** @type {string} */ id) => {
    const key = moved.get(id);
    return key === undefined ? id : `${graph.nodes.get(id)?.column} ${key}`;
  };
  for (const node of graph.nodes.values()) parts.set(idOf(node.id), [...parts.get(idOf(node.id)) ?? [], node]);
  const nodes = [...parts].map(([id, some]) => /** @type {[string, FlowNode]} */ ([some.length > 1 ? id : some[0].id,
    some.length > 1 ? groupNode(id, some, hrefOf(moved.get(some[0].id) ?? "")) : some[0]]));
  const shown = (/** @type {string} */ id) => ((parts.get(idOf(id)) ?? []).length > 1 ? idOf(id) : id);
  const edges = new Map(graph.edges.map(({ from, to }) => {
    const edge = { from: shown(from), to: shown(to) };
    return [`${edge.from}\0${edge.to}`, edge];
  }));
  return { nodes: new Map(nodes), edges: [...edges.values()] };
};

/** @param {string} id @param {FlowNode[]} some @param {string} href */
const groupNode = (id, some, href) => {
  const [{ column }] = some;
  const name = (column === INPUTS ? texts.many.inputs : column === RULES ? texts.many.rules : texts.many.actions);
  const health = worst(some.map((one) => one.health));
  const flowOf = (/** @type {"comes" | "goes"} */ side) => (some.some((one) => one[side])
    ? summed(some.map((one) => one[side])) : null);
  return nodeOf(id, column, some[0].kind, name(some.length), { more: texts.unfold, health, href,
    state: some.find((one) => one.health === health)?.state ?? "", comes: flowOf("comes"), goes: flowOf("goes") });
};
