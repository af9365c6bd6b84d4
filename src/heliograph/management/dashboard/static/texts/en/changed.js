// @ts-check
/** English: another user has changed what is saved. */
export default {
  changed: (/** @type {string[]} */ names) =>
    `Another user has changed ${names.join(", ")} meanwhile, and nothing is saved yet. Saving again replaces what ` +
    "they made; to see it, open this page in another window.",
};
