// @ts-check
/** Objects as maps of names that come from elsewhere: from an address, a user or a client. */

/** @param {unknown} value @returns {value is Record<string, unknown>} */
export const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A value as a map; an empty one for what is none. @param {unknown} value */
export const recordOf = (value) => (isRecord(value) ? value : {});

/**
 * What an object has itself under a name; `constructor` and `__proto__` are names like others.
 * @template T
 * @param {{ [name: string]: T } | null | undefined} object
 * @param {string} name
 * @returns {T | undefined}
 */
export const own = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : undefined);
