// @ts-check
/** Values of forms: what differs between two of them, changes put onto one, and errors by the paths that they name. */
import { isRecord, own, recordOf } from "../../kernel/own.js";

/** @typedef {{ path: string[], value: unknown }} Change A value of `undefined` is one that is taken out. */

/** A value as a list; an empty one for what is none. @param {unknown} value @returns {unknown[]} */
export const listOf = (value) => (Array.isArray(value) ? value : []);

/** @param {unknown} one @param {unknown} other @returns {boolean} */
export const isSame = (one, other) => {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one) && Array.isArray(other)) return one.length === other.length
    && one.every((item, at) => isSame(item, other[at]));
  if (!isRecord(one) || !isRecord(other)) return false;
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].every((name) => isSame(own(one, name), own(other, name)));
};

/**
 * What differs, setting by setting; lists differ as a whole.
 * @param {unknown} before
 * @param {unknown} after
 * @param {string[]} [path]
 * @returns {Change[]}
 */
export const differences = (before, after, path = []) => {
  if (isSame(before, after)) return [];
  if (!isRecord(before) || !isRecord(after)) return [{ path, value: after }];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((name) => differences(own(before, name), own(after, name), [...path, name]));
};

/**
 * A value with another value at a path; what lies around is not changed.
 * @param {unknown} tree
 * @param {string[]} path
 * @param {unknown} value
 * @returns {unknown}
 */
export const withValue = (tree, [name, ...rest], value) => {
  if (name === undefined) return value;
  const before = recordOf(tree);
  const child = withValue(own(before, name), rest, value);
  if (child !== undefined) return { ...before, [name]: child };
  return Object.fromEntries(Object.entries(before).filter(([other]) => other !== name));
};

/** @param {unknown} tree @param {Change[]} changes */
export const withChanges = (tree, changes) => changes.reduce((made, { path, value }) => withValue(made, path, value),
  tree);

/** @param {unknown} tree @param {string[]} path */
export const valueAt = (tree, path) => path.reduce((at, name) => own(recordOf(at), name), tree);

/** A path as configuration files write it. @param {string[]} path */
export const dotted = (path) => path.map((name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name
  : JSON.stringify(name))).join(".");

/** The names of a dotted path. @param {string} text @returns {string[]} */
export const namesOf = (text) => (text.match(/"(?:[^"\\]|\\.)*"|[^."]+/g) ?? [])
  .map((name) => (name.startsWith('"') ? JSON.parse(name) : name));

// A code and a place may stand before the path, and the value behind it.
const PROBLEM = new RegExp([
  /^(?:\[[a-z_]+\] )?(?:(?:<[^>]*>(?::\d+)*|\/\S*?:\d+): )?/,
  /([A-Za-z_][\w-]*(?:\.(?:[\w-]+|"[^"]*"))*)/,
  /(?: = [^:]*)?: (.+)$/,
].map(({ source }) => source).join(""));

/**
 * What is wrong and where; a group that says which of its settings it is means that one.
 * @param {string} line
 * @returns {{ path: string, text: string }}
 */
const problemIn = (line) => {
  const [, path = "", text = ""] = PROBLEM.exec(line) ?? [];
  const inner = text.startsWith(`${path}.`) ? problemIn(text) : null;
  return inner?.path ? inner : { path, text };
};

/**
 * The errors of a refused change by the paths that they name, and what names none.
 * @param {import("../../kernel/resource.js").Failure | null} error
 * @param {string[]} [prefix] What paths begin with; `*` for a name or position that may be any.
 * @returns {{ fields: Record<string, string>, rest: string }}
 */
export const problemsOf = (error, prefix = []) => {
  /** @type {Record<string, string>} */
  const fields = Object.create(null);
  const rest = String(error?.status ? error.message : "").split("\n").filter((line) => {
    const { path, text } = problemIn(line);
    if (/^\s/.test(line) && Object.keys(fields).length) return false; // the place in a text, which the field shows
    const names = path === "" ? null : namesOf(path);
    if (!names || !prefix.every((name, at) => name === "*" || name === names[at])) return true;
    fields[dotted(names.slice(prefix.length))] = text;
    return false;
  });
  return { fields, rest: rest.join("\n") };
};

/**
 * The same of something new that has a name: what is wrong with the name stands at `name`.
 * @param {import("../../kernel/resource.js").Failure | null} error
 * @param {string[]} place What paths begin with.
 * @param {string} name
 */
export const namedProblems = (error, place, name) => {
  const found = problemsOf(error, [...place, "*"]);
  const at = found.rest.indexOf(`${JSON.stringify(name)} is no valid name`);
  const { rest } = found;
  if (rest === "" || (at < 0 && error?.code !== "ALREADY_EXISTS")) return found;
  return { fields: Object.assign(found.fields, { name: rest.slice(Math.max(0, at)) }), rest: "" };
};
