import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeApi, load } from "./harness.mjs";

const { api, path, queryText, step } = await load("kernel/api.js");
const { readEvents } = await load("kernel/events.js");
const { own } = await load("kernel/own.js");
const { joined } = await load("kernel/joined_series.js");
const { link } = await load("kernel/router.js");
const { csvFile } = await load("pages/clients/csv.js");
const { stretchOf } = await load("pages/time_machine/stretch.js");
const format = await load("kernel/format.js");

test("a part of a path is one, whatever it is called", () => {
  assert.equal(path("clients/{clientid}/x", "a/b c"), "clients/a%2Fb%20c/x");
  assert.deepEqual([step("."), step(".."), step("...")], [".%00", "..%00", "..."]);
});

test("a query has what is not empty", () => {
  assert.equal(queryText({ a: "", b: null, c: undefined, d: 0, e: ["x", "", "y&"] }), "?d=0&e=x&e=y%26");
  assert.equal(queryText({}), "");
  assert.equal(link("clients", "a/b", { tab: "queue" }), "#/clients/a%2Fb?tab=queue");
});

test("names that every object has are names like others", () => {
  for (const name of ["constructor", "__proto__", "toString"]) assert.equal(own({ a: 1 }, name), undefined);
  assert.equal(own({ constructor: 1 }, "constructor"), 1);
  assert.equal(own(null, "a"), undefined);
});

test("a rate does not jump where its seconds follow its means of ten", () => {
  const at = (count, begin, step) => Array.from({ length: count }, (_, index) => begin + index * step);
  const known = { received: Array(10).fill(100), connections: Array(10).fill(5) };
  const before = { at: at(10, 1_000_000, 10_000), values: known };
  const live = { at: at(20, 1_100_000, 1000), values: {
    received: Array.from({ length: 20 }, (_, second) => (second % 10 === 9 ? 1000 : 0)), // the same in bursts
    connections: Array(20).fill(7) } };
  const { values } = joined(["received", "connections"], before, live, 300);
  assert.deepEqual(values.received.slice(19), Array(11).fill(100));
  assert.equal(Math.max(...values.received), 100);
  assert.deepEqual(values.connections.slice(9, 11), [5, 7]);
});

test("a refusal names its field", async () => {
  const server = fakeApi();
  for (const [message, field] of [
    ["ip_address: found 'x'", "ip_address"],
    ["checks.2.sql: too early", "checks.2.sql"],
    ["listeners.tcp = {}: wrong", "listeners.tcp"],
    ["there is none", ""],
  ]) {
    const refused = assert.rejects(api.get("x"), { status: 400, code: "BAD", message, field });
    (await server.next("GET x")).answer({ code: "BAD", message }, 400);
    await refused;
  }
});

test("events come whole, however their stream is cut", async () => {
  const text = 'event: a\ndata: {"n": "é"}\n\n: nothing\n\ndata: {"n": 2}\n\nevent: cut\ndata: {';
  const bytes = new TextEncoder().encode(text);
  const body = new ReadableStream({
    start: (to) => {
      for (const byte of bytes) to.enqueue(new Uint8Array([byte]));
      to.close();
    },
  });
  globalThis.fetch = async () => new Response(body);
  const got = [];
  const take = Object.fromEntries(["a", "message", "cut"].map((name) => [name, ({ n }) => got.push([name, n])]));
  await readEvents("x", {}, take, new AbortController().signal);
  assert.deepEqual(got, [["a", "é"], ["message", 2]]);
});

test("a file of values has all pages, and no formulas", async () => {
  const rows = [{ clientid: "=1+1" }, { clientid: 'a,"b"' }, { clientid: "é", mqueue_len: -2 }];
  const cursors = [];
  const done = [];
  const { file, rows: count, isCut } = await csvFile(async ({ cursor }) => {
    cursors.push(cursor);
    const page = Number(cursor ?? 0);
    return { data: [rows[page]], meta: { hasnext: page < 2, cursor: String(page + 1) } };
  }, (so_far) => done.push(so_far));
  assert.deepEqual([cursors, done, count, isCut], [[undefined, "1", "2"], [1, 2, 3], 3, false]);
  const lines = (await file.text()).split("\r\n");
  assert.match(lines[1], /(^|,)'=1\+1(,|$)/);
  assert.match(lines[2], /(^|,)"a,""b"""(,|$)/);
  assert.match(lines[3], /(^|,)-2(,|$)/);
});

test("numbers are as people read them", () => {
  assert.deepEqual([format.count(1234567), format.count(null)], ["1,234,567", format.NONE]);
  assert.deepEqual([format.compact(1234567), format.compact(1.25), format.rate(12)], ["1.2M", "1.3", "12/s"]);
  assert.deepEqual([format.bytes(1536), format.bytes(1023), format.bytes(1e6)], ["1.5 KiB", "1023 B", "977 KiB"]);
  assert.deepEqual([format.duration(93784), format.duration(0.25)], ["1 d 2 h", "250 ms"]);
});

test("stretches of the past begin and end where people mean", () => {
  assert.deepEqual(stretchOf("all", "", ""), { from: "earliest", to: "now" });
  assert.deepEqual(stretchOf("own", "2001-01-01T00:00:00Z", ""), { from: "2001-01-01T00:00:00.000Z", to: "now" });
  const { from, to } = stretchOf("yesterday", "", "");
  const midnight = new Date(to);
  assert.deepEqual([midnight.getHours(), midnight.getMinutes(), midnight.getDate()], [0, 0, new Date().getDate()]);
  midnight.setDate(midnight.getDate() - 1);
  assert.equal(from, midnight.toISOString());
});
