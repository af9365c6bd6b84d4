// @ts-check
/** Templates of actions: `${a.b}` is a value of a row, `${.}` the whole row as JSON. */
import { isRecord, own, recordOf } from "../kernel/own.js";
import { resolved } from "./schema/kinds.js";
import { dotted } from "./schema/values.js";

const PLACE = /\$\{([^}]*)\}/g;

/** @typedef {import("./schema/kinds.js").Schema} Schema */

/**
 * What a template makes of a row; a value that the row lacks is `null`.
 * @param {string} template @param {Record<string, unknown>} row
 */
export const filled = (template, row) => template.replace(PLACE, (_, /** @type {string} */ name) => {
  const steps = name.trim().replace(/\[(\d+)\]/g, ".$1").split(".").filter((step) => step !== "");
  return steps.length ? textOf(found(row, steps)) : JSON.stringify(row);
});

/** A step into text looks into the JSON that it holds. @param {unknown} row @param {string[]} steps */
const found = (row, steps) => {
  const value = at(row, steps);
  const first = at(row, steps.slice(0, 1));
  if (value !== undefined || typeof first !== "string") return value;
  try {
    return at(JSON.parse(first), steps.slice(1));
  } catch {
    return undefined;
  }
};

/** @param {unknown} value @param {string[]} steps @returns {unknown} */
const at = (value, [step, ...rest]) => {
  if (step === undefined) return value ?? undefined;
  if (Array.isArray(value)) return /^\d+$/.test(step) ? at(value[Number(step)], rest) : undefined;
  return isRecord(value) ? at(own(value, step), rest) : undefined;
};

/** @param {unknown} value */
const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(ordered(value)) ?? "null");

/** The keys of objects in order. @param {unknown} value @returns {unknown} */
const ordered = (value) => {
  if (Array.isArray(value)) return value.map(ordered);
  return isRecord(value) ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, ordered(value[key])]))
    : value;
};

/**
 * The settings that are templates, by their paths, with the defaults of those that are not set.
 * @param {unknown} value @param {Schema | undefined} schema @param {Schema} root @param {string[]} [path]
 * @returns {[string, string][]}
 */
export const templatesIn = (value, schema, root, path = []) => {
  const of = resolved(schema, root);
  const now = value ?? of.default;
  if (typeof now === "string") return now.includes("${") ? [[dotted(path), now]] : [];
  if (Array.isArray(now)) return now.flatMap((one, index) => templatesIn(one, of.items, root, [...path,
    String(index + 1)]));
  const names = new Set([...Object.keys(of.properties ?? {}), ...Object.keys(recordOf(now))]);
  return [...names].flatMap((name) => templatesIn(own(recordOf(now), name), own(of.properties, name), root,
    [...path, name]));
};
