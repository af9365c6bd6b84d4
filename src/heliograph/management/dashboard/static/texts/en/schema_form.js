// @ts-check
/** English: forms of settings. */
export default {
  required: "Required",
  valid: (/** @type {string} */ expected) => `Valid: ${expected}`,
  fallback: (/** @type {string} */ value) => `Default: ${value}`,
  inherited: (/** @type {string} */ value, /** @type {string} */ path) => `Inherited from ${path}: ${value}`,
  asDefault: (/** @type {string} */ value) => `${value} (default)`,
  asInherited: (/** @type {string} */ value) => `${value} (inherited)`,
  choose: "Choose …",
  empty: "(empty)",
  kept: "set; it stays unless you type another one",
  forget: (/** @type {string} */ name) => `Remove ${name}`,
  oneALine: "One a line.",
  asJson: "Text, or JSON in brackets.",
  wrongFields: (/** @type {[string, string][]} */ fields) =>
    `Not valid: ${fields.map(([name, why]) => `${name} (${why})`).join("; ")}.`,
  kind: "Kind",
  up: "Move up",
  down: "Move down",
  addTo: (/** @type {string} */ name) => `Add to ${name}`,
  addPair: "Add",
  newName: (/** @type {string} */ name) => `New name in ${name}`,
  nameOf: (/** @type {string} */ name, /** @type {number} */ at) => `Name ${at} of ${name}`,
  valueOf: (/** @type {string} */ group, /** @type {string} */ name) =>
    `Value of ${name || "the new name"} in ${group}`,
  removeNamed: (/** @type {string} */ name) => `Delete ${name}`,
};
