import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./harness.mjs";

const { graphOf } = await load("pages/data_flow/graph.js");
const { failingCount, folded, narrowed } = await load("pages/data_flow/ways.js");
const { HEIGHT, layoutOf } = await load("pages/data_flow/layout.js");

const one = (type, name, more) => ({ type, name, enable: true, status: "connected", status_reason: "", ...more });
const COUNTS = { enable: true, matched_rate: 2, passed_rate: 1, failed_exception: 0, actions_failed: 0 };
const NAMES = Array.from({ length: 200 }, (_, at) => `r${at}`);
const FOUND = {
  rules: NAMES.map((id, at) => ({ id, name: "", enable: true, from: [`t/${at}`, "all/#"],
    actions: [at % 2 ? "http:a" : "mqtt:b", ...(at === 7 ? [{ function: "console" }] : [])] })),
  actions: [one("http", "a", { connector: "c" }), one("mqtt", "b", { connector: "d" }), one("mqtt", "alone",
    { connector: "d" })],
  connectors: [one("http", "c", { url: "http://h:1/x" }), one("mqtt", "d", { server: "h:2" })],
  sources: [one("mqtt", "s", { connector: "d" })],
};
const LIVE = { rules: Object.fromEntries(NAMES.map((id, at) => [id, { ...COUNTS, failed_exception: at === 8 ? 3 : 0 }])),
  actions: { "http:a": { ...one("http", "a"), metrics: { rate: 5, failed: 0, queuing: 4 } } }, connectors: {}, sources: {} };
const named = (graph, name) => [...graph.nodes.values()].find((node) => node.name === name);

test("many rules are one where they lead to the same, with the sums of what runs along their edges", () => {
  const graph = folded(graphOf(FOUND, LIVE), "", {});
  const rules = [...graph.nodes.values()].filter(({ column }) => column === 1);
  assert.deepEqual(rules.map(({ name }) => name).sort(), ["100 rules", "100 rules"]);
  const failed = rules.find(({ health }) => health === "warn");
  assert.deepEqual(failed.comes, { rate: 200, failed: 3, waiting: 0 });
  assert.equal(failed.state, "failed");
  assert.deepEqual(named(graph, "a").goes, { rate: 5, failed: 0, waiting: 4 });
  assert.equal(named(graph, "100 inputs").column, 0);
  assert.equal(named(graph, "all/#").column, 0); // both groups read it
  assert.ok(named(graph, "alone") && named(graph, "mqtt:s")); // no rule has them
  const key = new URLSearchParams(failed.href.split("?")[1]).get("open");
  const open = folded(graphOf(FOUND, LIVE), key, {});
  assert.equal([...open.nodes.values()].filter(({ column }) => column === 1).length, 101);
});

test("nothing covers anything, and every edge has two ends", () => {
  const { nodes, lines } = layoutOf(graphOf(FOUND, LIVE));
  assert.equal(nodes.length, 200 + 201 + 1 + 3 + 1 + 2 + 2); // with the log of the node and the source
  assert.ok(lines.every(({ d }) => d.startsWith("M")));
  for (let at = 1; at < nodes.length; at += 1) {
    const [before, node] = [nodes[at - 1], nodes[at]];
    assert.ok(before.column !== node.column || before.y + HEIGHT <= node.y, `${before.name} and ${node.name}`);
  }
});

test("a search keeps whole ways, and what fails can be seen alone", () => {
  const all = graphOf(FOUND, LIVE);
  assert.equal(failingCount(all), 1);
  const columnsOf = (graph) => [0, 1, 2, 3, 4].map((column) => [...graph.nodes.values()]
    .filter((node) => node.column === column).map(({ name }) => name));
  assert.deepEqual(columnsOf(narrowed(all, "", true)), [["all/#", "t/8"], ["r8"], ["b"], ["d"], ["h:2"]]);
  assert.deepEqual(columnsOf(narrowed(all, "T/7", false))[1], ["r7", ...NAMES.slice(70, 80)]);
  assert.equal(narrowed(all, "no such", false).nodes.size, 0);
});
