// @ts-check
/** Settings that a text is found in: names before descriptions, and of names the whole ones and beginnings first. */
import { own, recordOf } from "../../kernel/own.js";
import { kindOf, resolved, valuesOf } from "./kinds.js";
import { dotted } from "./values.js";

/**
 * @typedef {import("./kinds.js").Schema} Schema
 * @typedef {{ schema: Schema, path: string[], isRequired: boolean, rank: number }} Hit
 */

const WHOLE = 0;
const BEGINNING = 1;
const WORD = 2;
const PART = 3;
const DESCRIPTION = 4;
const NOT = 5;

/** Whether a hit is found in its name, and not only in its description. @param {Hit} hit */
export const isInName = ({ rank }) => rank < DESCRIPTION;

/** @param {string} text In lower case. @param {string[]} path @param {string} [description] */
const rankOf = (text, path, description = "") => {
  const names = [path.at(-1) ?? "", dotted(path)].map((one) => one.toLowerCase());
  if (names.includes(text)) return WHOLE;
  if (names.some((one) => one.startsWith(text))) return BEGINNING;
  if (names.some((one) => one.includes(`_${text}`) || one.includes(`.${text}`))) return WORD;
  if (names.some((one) => one.includes(text))) return PART;
  return description.toLowerCase().includes(text) ? DESCRIPTION : NOT;
};

/**
 * @param {Schema} root The whole schema.
 * @param {string} text
 * @param {unknown} value Of the whole, for groups that have names.
 * @returns {Hit[]} In their order.
 */
export const searched = (root, text, value) => {
  const wanted = text.trim().toLowerCase();
  return hitsIn({ schema: root, path: [], isRequired: false, rank: NOT }, root, wanted, value)
    .sort((one, other) => one.rank - other.rank);
};

/**
 * @param {Hit} place @param {Schema} root @param {string} text @param {unknown} value
 * @returns {Hit[]}
 */
const hitsIn = ({ schema: given, path, isRequired }, root, text, value) => {
  const schema = resolved(given, root);
  const kind = kindOf(schema, root);
  if (kind === "none" || kind === "fixed") return [];
  const found = { schema: given, path, isRequired, rank: rankOf(text, path, schema.description) };
  if (kind !== "group" && (kind !== "named" || isInName(found))) return found.rank < NOT ? [found] : [];
  const held = recordOf(value);
  /** @type {[string, Schema][]} */
  const inner = kind === "group" ? Object.entries(schema.properties ?? {})
    : Object.keys(held).map((name) => [name, valuesOf(schema, root)]);
  const hits = inner.flatMap(([name, one]) => hitsIn({ schema: one, path: [...path, name],
    isRequired: schema.required?.includes(name) ?? false, rank: NOT }, root, text, own(held, name)));
  return kind === "named" && found.rank < NOT && hits.length === 0 ? [found] : hits;
};
