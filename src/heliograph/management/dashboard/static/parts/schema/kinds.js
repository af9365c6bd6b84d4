// @ts-check
/** What a JSON Schema of settings asks for: which field shows it, what is valid, and which alternative a value is. */
import { valueAt } from "./values.js";
import { own, recordOf } from "../../kernel/own.js";

/**
 * As far as forms read it.
 * @typedef {{
 *   $ref?: string, type?: string | string[], title?: string, description?: string, default?: unknown, const?: unknown,
 *   enum?: unknown[], anyOf?: Schema[], oneOf?: Schema[], allOf?: Schema[], not?: unknown, items?: Schema,
 *   properties?: Record<string, Schema>, required?: string[], additionalProperties?: Schema | boolean,
 *   minimum?: number, maximum?: number, format?: string, writeOnly?: boolean, "x-path"?: string, "x-kind"?: string,
 *   "x-expected"?: string, "x-inherited"?: string,
 * }} Schema
 */

export const STARS = "******";

/**
 * A schema, or the one that it refers to.
 * @param {Schema | undefined} schema
 * @param {object} root The whole that references begin at.
 * @returns {Schema}
 */
export const resolved = (schema, root) => {
  if (schema?.$ref === undefined) return schema ?? {};
  return { ...recordOf(valueAt(root, schema.$ref.replace(/^#\//, "").split("/"))), ...schema, $ref: undefined };
};

/** The schema of the values of a map. @param {Schema} schema @param {object} root */
export const valuesOf = ({ additionalProperties: values }, root) => resolved(typeof values === "object" ? values : {},
  root);

/** @param {Schema} schema */
const typesOf = (schema) => [schema.type ?? []].flat();

/** @param {Schema} schema @returns {Schema[]} */
const alternativesOf = (schema) => (schema.anyOf ? schema.anyOf.flatMap(alternativesOf) : [schema]);

/** Whether one line of text says it. @param {Schema} schema @returns {boolean} */
const isSimple = (schema) => alternativesOf(schema).every((one) =>
  one.enum || "const" in one || (typesOf(one).length > 0 && !typesOf(one).some((type) => type === "object"
    || type === "array")));

/** @param {Schema} schema @param {Schema} root */
const mapKind = (schema, root) => {
  const values = valuesOf(schema, root);
  if (values.properties || values.oneOf) return "named";
  return isSimple(values) ? "texts" : "json";
};

/** @param {Schema} schema @param {Schema} root */
const listKind = (schema, root) => {
  const items = resolved(schema.items, root);
  if (items.enum) return "choices";
  if (items.properties || items.oneOf) return "list";
  return isSimple(items) ? "lines" : "json";
};

/** @param {Schema} schema */
const alternativesKind = (schema) => {
  const shapes = alternativesOf(schema);
  if (isSimple(schema)) return "text";
  const isListOrOne = shapes.every((one) => (one.type === "array" ? isSimple(one.items ?? {}) : isSimple(one)));
  return isListOrOne ? "lines" : "json";
};

/**
 * @param {Schema} schema Resolved.
 * @param {Schema} root
 * @returns {"none" | "fixed" | "variant" | "group" | "named" | "texts" | "choices" | "list" | "lines" | "choice" |
 *   "switch" | "secret" | "text" | "json"}
 */
export const kindOf = (schema, root) => {
  if ("not" in schema) return "none";
  if ("const" in schema) return "fixed";
  if (schema.oneOf) return "variant";
  if (schema.anyOf) return alternativesKind(schema);
  if (schema.enum) return "choice";
  if (schema.type === "object") return schema.properties ? "group" : mapKind(schema, root);
  if (schema.type === "array") return listKind(schema, root);
  if (schema.type === "boolean") return "switch";
  if (schema.writeOnly || schema["x-kind"] === "secret") return "secret";
  return isSimple(schema) ? "text" : "json";
};

/** Words that stand for themselves, as `infinity`. @param {Schema} schema */
export const wordsOf = (schema) => alternativesOf(schema).flatMap((one) =>
  ("const" in one ? [String(one.const)] : (one.enum ?? []).map(String)));

/**
 * A text as the schema wants it: a number where it takes numbers and no texts.
 * @param {Schema} schema
 * @param {string} text
 */
export const scalarOf = (schema, text) => {
  if (text.trim() === "") return undefined;
  const shapes = alternativesOf(schema);
  const number = /^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : NaN;
  if (Number.isNaN(number) || !(Number.isSafeInteger(number) || text.includes("."))) return text;
  const takes = shapes.some((one) => typesOf(one).some((type) => type === "integer" || type === "number")
    && !typesOf(one).includes("string"));
  return takes || shapes.some((one) => one.const === number) ? number : text;
};

/** Whether several lines are likely. @param {Schema} schema @param {unknown} value */
export const isLong = (schema, value) => /^(sql|query|source|rules|template)$/.test(schema["x-path"]?.split(".").pop()
  ?? "")
  || (typeof value === "string" && (value.includes("\n") || value.length > 120));

/** The properties that tell alternatives apart. @param {Schema} variant @returns {[string, unknown][]} */
export const tagsOf = (variant) => Object.entries(variant.properties ?? {}).filter(([, one]) => "const" in one)
  .map(([name, one]) => [name, one.const]);

/** Which alternative a value is; -1 for none. @param {Schema} schema @param {unknown} value */
export const variantOf = (schema, value) => (schema.oneOf ?? []).findIndex((one) => {
  const tags = tagsOf(one);
  const held = recordOf(value);
  return tags.length > 0 && tags.every(([name, tag]) => held[name] === tag)
    && Object.keys(held).every((name) => name === "id" || own(one.properties, name)
      || !["mechanism", "backend", "type"].includes(name));
});

/** The schema of what stands at a path. @param {Schema} root @param {string[]} path @returns {Schema | undefined} */
export const schemaAt = (root, path) => path.reduce((at, name) => {
  const { properties, additionalProperties: values } = resolved(at, root);
  return own(properties, name) ?? (typeof values === "object" ? values : undefined);
}, /** @type {Schema | undefined} */ (root));
