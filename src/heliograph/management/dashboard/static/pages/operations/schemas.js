// @ts-check
/** The document as far as it is shown; its schemas, without references, and a value that fits one. */
import { isRecord, own, recordOf } from "../../kernel/own.js";
import { valueAt } from "../../parts/schema_form.js";

const DEEPEST = 6;

/**
 * @typedef {import("../../parts/schema/kinds.js").Schema} Schema
 * @typedef {{ name: string, in: string, required?: boolean, description?: string, schema: Schema }} Parameter
 * @typedef {{ description: string, content?: Record<string, { schema?: Schema }> }} Answer
 * @typedef {{ summary: string, description?: string, tags?: string[], "x-scope"?: string, parameters?: Parameter[],
 *   requestBody?: { content: Record<string, { schema: Schema }> }, responses: Record<string, Answer> }} About
 * @typedef {{ tags: { name: string, description: string }[], paths: Record<string, Record<string, About>> }}
 *   ApiDocument
 */

/**
 * The schema with what its references name in their place, so many levels deep.
 * @param {Schema} schema
 * @param {ApiDocument} document
 * @returns {Schema}
 */
export const resolved = (schema, document) => recordOf(whole(schema, document, 0));

/** @param {unknown} value @param {ApiDocument} document @param {number} depth @returns {unknown} */
const whole = (value, document, depth) => {
  if (Array.isArray(value)) return value.map((one) => whole(one, document, depth + 1));
  if (!isRecord(value)) return value;
  if (typeof value.$ref === "string") return depth > DEEPEST * 2 ? {}
    : whole(valueAt(document, value.$ref.replace("#/", "").split("/")), document, depth + 1);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, whole(one, document, depth + 1)]));
};

/**
 * A value to begin with: what is required, and defaults.
 * @param {Schema | undefined} schema Without references.
 * @param {number} [depth]
 * @returns {unknown}
 */
export const example = (schema, depth = 0) => {
  if (!schema || depth > DEEPEST) return null;
  if ("default" in schema) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum[0];
  const [first] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  if (first) return example(first, depth + 1);
  if (schema.type === "array") return [];
  if (schema.type === "object" || schema.properties) {
    const required = new Set(schema.required ?? []);
    return Object.fromEntries(Object.entries(schema.properties ?? {}).filter(([name]) => required.has(name))
      .map(([name, one]) => [name, example(one, depth + 1)]));
  }
  return own({ string: "", integer: schema.minimum ?? 0, number: 0, boolean: false }, String(schema.type)) ?? null;
};

/** In a few words. @param {Schema | undefined} schema @returns {string} */
export const typeText = (schema) => {
  if (!schema) return "";
  if (schema.enum) return schema.enum.join(", ");
  const many = schema.anyOf ?? schema.oneOf;
  if (many) return many.map(typeText).filter((text) => text !== "null").join(" | ");
  const bounds = [schema.minimum !== undefined && `≥ ${schema.minimum}`, schema.maximum !== undefined
    && `≤ ${schema.maximum}`,
    schema.default !== undefined && schema.default !== null && `= ${JSON.stringify(schema.default)}`];
  return [schema.type, ...bounds].filter(Boolean).join(" ");
};
