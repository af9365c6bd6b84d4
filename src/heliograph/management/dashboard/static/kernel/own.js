// @ts-check
/** Objects as maps of names that come from elsewhere: from an address, a user or a client. */

/**
 * What an object has itself under a name; `constructor` and `__proto__` are names like others.
 * @template T
 * @param {{ [name: string]: T } | null | undefined} object
 * @param {string} name
 * @returns {T | undefined}
 */
export const own = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : undefined);
