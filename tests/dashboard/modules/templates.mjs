import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./harness.mjs";

const { filled, templatesIn } = await load("parts/templates.js");
const { namedProblems } = await load("parts/schema_form.js");

test("a template has the texts of a row", () => {
  const row = { t: 21.5, name: "a", on: true, none: null, list: [{ x: 1 }, 2], more: { b: 1, a: { d: 2, c: "e" } },
    payload: '{"temp": {"in": 7}}' };
  for (const [template, text] of [
    ["no place", "no place"],
    ["${t}/${name}/${ on }", "21.5/a/true"],
    ["${none}${missing}${t.deep}${constructor}", "nullnullnullnull"],
    ["${list[0].x} ${list.1} ${list[9]}", "1 2 null"],
    ["${more}", '{"a":{"c":"e","d":2},"b":1}'], // keys in order, as engines write them
    ["${payload.temp.in} ${payload.nothing} ${name.x}", "7 null null"],
    ["${.}", JSON.stringify(row)],
    ["${.t}", "21.5"],
    ["${t", "${t"],
  ]) assert.equal(filled(template, row), text, template);
});

test("templates are found wherever they stand, with the defaults of what is not set", () => {
  const root = { defs: { args: { type: "object", properties: { topic: { type: "string", default: "${topic}" },
    qos: { type: "integer", default: 0 }, headers: { type: "object" } } } } };
  const schema = { type: "object", properties: { parameters: { $ref: "#/defs/args" } } };
  assert.deepEqual(templatesIn({ parameters: { headers: { "x-a": "${a}", b: "text" }, keys: ["${k}"] } }, schema, root),
    [["parameters.topic", "${topic}"], ["parameters.headers.x-a", "${a}"], ["parameters.keys.1", "${k}"]]);
  assert.deepEqual(templatesIn({ parameters: { topic: "a" } }, schema, root), []);
});

test("what is wrong with a name stands at the name, and the place in a text only in its field", () => {
  const of = (message, code = "BAD_REQUEST") =>
    namedProblems({ status: 400, code, message }, ["actions", "http"], "a b");
  const bad = of('[config_invalid] <change>: actions.http.a b: "a b" is no valid name: expected letters');
  assert.deepEqual({ ...bad.fields }, { name: '"a b" is no valid name: expected letters' });
  assert.equal(of("the action 'http:a b' is there already", "ALREADY_EXISTS").rest, "");
  const sql = of("actions.http.a.sql: line 1: unexpected FROM\n    SELECT FROM\n           ^^^^");
  assert.deepEqual([{ ...sql.fields }, sql.rest], [{ sql: "line 1: unexpected FROM" }, ""]);
  assert.equal(of("127.0.0.1:9: Connection refused", "TEST_FAILED").rest, "127.0.0.1:9: Connection refused");
});
