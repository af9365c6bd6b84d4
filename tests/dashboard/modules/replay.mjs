import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeApi, load, mount, until } from "./harness.mjs";

const { useReplay } = await load("pages/time_machine/replay.js");
const WHERE = "heliograph/rule_replays";

const finished = async () => {
  const api = fakeApi();
  const page = await mount(useReplay);
  const run = page.now.run({ rule: "warm" });
  (await api.next(`POST ${WHERE}`)).answer({ id: "1", state: "running" }, 201);
  (await api.next(`GET ${WHERE}/1/events`)).stream('event: end\ndata: {"id": "1", "state": "finished"}\n\n');
  (await api.next(`GET ${WHERE}/1`)).answer({ id: "1", state: "finished", result: { rows: [] } });
  await run;
  await until(() => page.now.shown?.result);
  return { api, page };
};

test("a replay is followed to its result", async () => {
  const { page } = await finished();
  assert.equal(page.now.isRunning, false);
  assert.equal(page.now.error, null);
});

test("a page that is left while the replay before ends begins no other", async () => {
  const { api, page } = await finished();
  const run = page.now.run({ rule: "warm" });
  const end = await api.next(`DELETE ${WHERE}/1`);
  page.leave();
  end.answer(null, 204);
  await run;
  assert.equal(api.asked.filter(({ what }) => what.startsWith("POST")).length, 1);
});

test("a replay that is cancelled while the one before ends is not begun", async () => {
  const { api, page } = await finished();
  const run = page.now.run({ rule: "warm" });
  const end = await api.next(`DELETE ${WHERE}/1`);
  const cancel = page.now.cancel();
  end.answer(null, 204);
  await Promise.all([run, cancel]);
  assert.equal(api.asked.filter(({ what }) => what.startsWith("POST")).length, 1);
});

test("a replay whose page is left while it begins is ended when its id is known", async () => {
  const api = fakeApi();
  const page = await mount(useReplay);
  const run = page.now.run({ rule: "warm" });
  const begin = await api.next(`POST ${WHERE}`);
  page.leave();
  begin.answer({ id: "7", state: "running" }, 201);
  (await api.next(`DELETE ${WHERE}/7`)).answer(null, 204);
  await run;
});

test("one replay ends before the next begins, whatever has become of it", async () => {
  const { api, page } = await finished();
  const run = page.now.run({ rule: "cold" });
  (await api.next(`DELETE ${WHERE}/1`)).answer({ code: "NOT_FOUND", message: "gone" }, 404);
  const begin = await api.next(`POST ${WHERE}`);
  assert.deepEqual(begin.body, { rule: "cold" });
  begin.answer({ code: "INVALID_PARAMETER", message: "rule: there is no rule 'cold'" }, 400);
  await run;
  await until(() => page.now.error);
  assert.deepEqual([page.now.error.field, page.now.isRunning], ["rule", false]);
});
