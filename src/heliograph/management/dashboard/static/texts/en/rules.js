// @ts-check
/** English: the list of rules. */
export default {
  title: "Rules",
  add: "New rule",
  id: "Id",
  search: "Search",
  from: "Reads",
  state: "State",
  enabled: "enabled",
  disabled: "disabled",
  lastError: "Last error",
  more: "Actions",
  enable: "Enable",
  disable: "Disable",
  remove: "Delete",
  removeTitle: "Delete a rule",
  removeText: (/** @type {string} */ id) =>
    `The rule ${id} reads no message any more, and its counts are lost. What its actions have done stays.`,
  removeAction: (/** @type {string} */ id) => `Delete ${id}`,
  removed: (/** @type {string} */ id) => `The rule ${id} is deleted.`,
  none:
    "There is no rule yet. A rule takes the messages of some topics, or events, and makes rows of them by SQL: " +
    "republish them, or bring them to a database.",
  noneFound: "No rule has this text in its id.",
};
