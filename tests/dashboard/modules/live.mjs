import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { fakeApi, load, mount, until } from "./harness.mjs";

const streams = [];
class Stream extends EventTarget {
  static CLOSED = 2;

  constructor(url) {
    super();
    this.readyState = 1;
    this.url = url;
    streams.push(this);
  }

  close() { this.readyState = Stream.CLOSED; }

  say(name, data) { this.dispatchEvent(Object.assign(new Event(name), { data: JSON.stringify(data) })); }
}
globalThis.EventSource = Stream;

const { useLive, useLiveState } = await load("kernel/live.js");
const { useLiveRows } = await load("kernel/live_rows.js");
const useRules = (...rest) => useLiveRows(useLive("rules")?.rules, ...rest);
const open = () => streams.filter(({ readyState }) => readyState !== Stream.CLOSED);
const opened = async (subjects) => {
  const url = `api/v5/heliograph/live?of=${encodeURIComponent(subjects)}`;
  await until(() => open().length === 1 && open()[0].url === url);
  return open()[0];
};

beforeEach(async () => {
  await until(() => open().length === 0);
  fakeApi();
});

test("one stream brings all subjects of a page, until the page is left", async () => {
  const state = await mount(useLiveState);
  const [rules, nodes] = [await mount(useLive, "rules"), await mount(useLive, "nodes")];
  const stream = await opened("nodes,rules");
  stream.say("rules", { n: 1 });
  stream.say("nodes", { n: 2 });
  await until(() => rules.now?.n === 1 && nodes.now?.n === 2 && state.now === "on");
  nodes.leave();
  const next = await opened("rules");
  assert.equal(state.now === "on" || state.now === "begins", true);
  next.say("failed", { of: "rules" });
  await until(() => state.now === "broken");
  next.say("rules", { n: 3 });
  await until(() => rules.now.n === 3 && state.now === "on");
  rules.leave();
  await until(() => open().length === 0 && state.now === "off");
  state.leave();
});

test("rows that the stream knows otherwise are loaded again, once", async () => {
  let loads = 0;
  const about = ({ id, enable }) => ({ id, enable });
  const first = [{ id: "a", enable: true }];
  const list = await mount(useRules, first, about, () => { loads += 1; });
  const stream = await opened("rules");
  stream.say("rules", { rules: { a: { enable: true, count: 1 } } });
  await until(() => list.now.since.a?.count === 1);
  assert.equal(loads, 0);
  stream.say("rules", { rules: { a: { enable: false } } });
  await until(() => loads === 1);
  list.use([{ id: "a", enable: false }], about, () => { loads += 1; });
  assert.deepEqual(list.now.since, {}); // rows that were loaded since are newer
  stream.say("rules", { rules: { a: { enable: false, count: 2 } } });
  await until(() => list.now.since.a?.count === 2);
  assert.equal(loads, 1);
  list.leave();
});

test("rows that differ from what the stream had said before them wait for its next word", async () => {
  let loads = 0;
  const about = ({ id, enable }) => ({ id, enable });
  const reload = () => { loads += 1; };
  const list = await mount(useRules, undefined, about, reload);
  const stream = await opened("rules");
  stream.say("rules", { rules: { a: { enable: true } } });
  await until(() => list.now.now.a);
  mock.timers.enable({ apis: ["setTimeout"] });
  list.use([], about, reload);
  for (let step = 0; step < 48; step += 1) mock.timers.tick(100); // first of all effects
  assert.equal(loads, 0);
  for (let step = 0; step < 4; step += 1) mock.timers.tick(100);
  mock.timers.reset();
  assert.equal(loads, 1);
  list.leave();
});
