// @ts-check
/** Schemas of the document, without references, and a value that fits one. */
const DEEPEST = 6;

/**
 * The schema with what its references name in their place, so many levels deep.
 * @param {any} schema
 * @param {any} document
 * @param {number} [depth]
 * @returns {any}
 */
export const resolved = (schema, document, depth = 0) => {
  if (schema === null || typeof schema !== "object") return schema;
  if (Array.isArray(schema)) return schema.map((one) => resolved(one, document, depth + 1));
  if (typeof schema.$ref === "string") {
    if (depth > DEEPEST * 2) return {};
    const names = schema.$ref.replace("#/", "").split("/");
    return resolved(names.reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[name], document), document,
      depth + 1);
  }
  return Object.fromEntries(Object.entries(schema).map(([name, value]) =>
    [name, resolved(value, document, depth + 1)]));
};

/**
 * A value to begin with: what is required, and defaults.
 * @param {any} schema Without references.
 * @param {number} [depth]
 * @returns {any}
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
  return { string: "", integer: schema.minimum ?? 0, number: 0, boolean: false }[/** @type {"string"} */ (schema.type)]
    ?? null;
};

/** In a few words. @param {any} schema @returns {string} */
export const typeText = (schema) => {
  if (!schema) return "";
  if (schema.enum) return schema.enum.join(", ");
  const many = schema.anyOf ?? schema.oneOf;
  if (many) return many.map(typeText).filter((/** @type {string} */ text) => text !== "null").join(" | ");
  const bounds = [schema.minimum !== undefined && `≥ ${schema.minimum}`, schema.maximum !== undefined
    && `≤ ${schema.maximum}`,
    schema.default !== undefined && schema.default !== null && `= ${JSON.stringify(schema.default)}`];
  return [schema.type, ...bounds].filter(Boolean).join(" ");
};
