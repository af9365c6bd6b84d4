// @ts-check
/** Where everything stands: columns from left to right, each thing near what it is joined with. */
import { RULES, TARGETS } from "./nodes.js";

export const WIDTH = 168;
export const HEIGHT = 38;
const GAP = 72;
const STEP = 52;
const TOP = 34;

/**
 * @typedef {import("./nodes.js").FlowNode} FlowNode
 * @typedef {import("./graph.js").Edge} Edge
 * @typedef {FlowNode & { x: number, y: number }} Placed
 * @typedef {{ nodes: Placed[], lines: (Edge & { d: string })[], width: number, height: number }} Layout
 */

/** The left edge of a column. @param {number} column */
export const leftOf = (column) => column * (WIDTH + GAP);

/** @param {import("./graph.js").Graph} graph @returns {Layout} */
export const layoutOf = ({ nodes, edges }) => {
  const columns = [0, 1, 2, 3, TARGETS].map((column) => [...nodes.values()].filter((one) => one.column === column));
  const bottom = TOP + STEP * (Math.max(1, ...columns.map(({ length }) => length)) - 1);
  /** @type {Map<string, number>} */
  const heights = new Map();
  // What is joined with the same things stands together: the rules are put in order by what they lead to.
  const keyOf = (/** @type {string} */ id) => edges.filter(({ from }) => from === id).map(({ to }) => to).sort().join();
  const rules = columns[RULES].map((one) => ({ one, key: keyOf(one.id) })).sort((a, b) =>
    (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  rules.forEach(({ one }, at) => heights.set(one.id, TOP + at * STEP));
  for (const column of [0, 2, 3, TARGETS]) {
    const wanted = columns[column].map(({ id }) => ({ id, y: meanOf(edges.flatMap(({ from, to }) =>
      (from === id ? heights.get(to) ?? [] : to === id ? heights.get(from) ?? [] : []))) }));
    for (const { id, y } of spread(wanted, bottom)) heights.set(id, y);
  }
  const placed = columns.flat().map((one) => ({ ...one, x: leftOf(one.column), y: heights.get(one.id) ?? TOP }))
    .sort((a, b) => a.column - b.column || a.y - b.y);
  const byId = new Map(placed.map((one) => [one.id, one]));
  return {
    nodes: placed,
    lines: edges.map((edge) => ({ ...edge, d: curve(byId.get(edge.from), byId.get(edge.to)) })),
    width: leftOf(TARGETS) + WIDTH,
    height: Math.max(TOP, ...placed.map(({ y }) => y)) + HEIGHT + 6,
  };
};

/** @param {number[]} some */
const meanOf = (some) => (some.length ? some.reduce((sum, one) => sum + one, 0) / some.length : Infinity);

/**
 * As near as possible to where each wants to stand, without covering another one; those that want nothing stand last.
 * @param {{ id: string, y: number }[]} wanted
 * @param {number} bottom
 */
const spread = (wanted, bottom) => {
  const ordered = [...wanted].sort((a, b) => (a.y === b.y ? 0 : a.y - b.y)).map((one) => ({ ...one }));
  let least = TOP;
  for (const one of ordered) {
    one.y = Number.isFinite(one.y) ? Math.max(least, one.y) : least;
    least = one.y + STEP;
  }
  let most = bottom;
  for (const one of [...ordered].reverse()) {
    one.y = Math.min(one.y, most);
    most = one.y - STEP;
  }
  return ordered;
};

/** @param {Placed | undefined} from @param {Placed | undefined} to */
const curve = (from, to) => {
  if (!from || !to) return "";
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
};
