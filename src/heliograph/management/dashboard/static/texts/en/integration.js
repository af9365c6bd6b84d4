// @ts-check
/** English: connectors, actions and sources. */
export default {
  type: "Type",
  name: "Name",
  nameHint: "Letters, digits, - and _. It cannot be changed later.",
  status: "State",
  reason: "Why",
  uses: { connectors: "Used by", actions: "Used by rules", sources: "Read by rules" },
  connector: "Connector",
  connectorHint: "The server or place that it writes to, or takes messages of.",
  noConnector: (/** @type {string} */ type) => `There is no connector of type ${type} yet.`,
  addConnector: "Add one",
  choose: "Choose …",
  more: "Actions",
  /** @type {Record<string, string>} */
  states: { connected: "connected", connecting: "connecting", disconnected: "disconnected", disabled: "disabled",
    inconsistent: "inconsistent" },
  enable: "Enable",
  disable: "Disable",
  start: "Connect now",
  started: (/** @type {string} */ id) => `${id} is connected.`,
  remove: "Delete",
  removeAction: (/** @type {string} */ id) => `Delete ${id}`,
  removed: (/** @type {string} */ id) => `${id} is deleted.`,
  test: "Test",
  tested: "The test succeeded: it can be reached and lets us in. Nothing was written.",
  testing: "Testing …",
  save: "Save",
  saved: (/** @type {string} */ id) => `${id} is saved.`,
  watching: "How it is watched, and how much it takes at a time",
  meaningless: "Accepted as EMQX has it, without a meaning here",
  metrics: { actions: "What became of its rows", sources: "What came" },
  reset: "Count from zero",
  letters: "Show its dead letters",
  /** @type {Record<string, string>} */
  counts: { success: "Written", failed: "Dead letters", retried: "Tried again", queuing: "Waiting",
    rate: "In a second", received: "Received", dropped: "Dropped" },
  connectors: {
    title: "Connectors",
    one: (/** @type {string} */ id) => `Connector ${id}`,
    all: "All connectors",
    add: "New connector",
    make: "Make the connector",
    none:
      "There is no connector yet. A connector is a server or a place, such as a database, to which actions bring " +
      "the rows of rules.",
    removeTitle: "Delete a connector",
    removeText: () => "Nothing uses it.",
    removeUsed: (/** @type {string[]} */ actions) =>
      "These actions and sources use it and are deleted with it; rules that name them no longer have them: " +
      `${actions.join(", ")}.`,
  },
  actions: {
    title: "Actions",
    one: (/** @type {string} */ id) => `Action ${id}`,
    all: "All actions",
    add: "New action",
    make: "Make the action",
    none:
      "There is no action yet. An action brings the rows of the rules that name it to a server or a place, such as " +
      "a web service or a table.",
    removeTitle: "Delete an action",
    removeText: () => "No rule uses it.",
    removeUsed: (/** @type {string[]} */ rules) => `It is taken out of the rules that use it: ${rules.join(", ")}.`,
  },
  sources: {
    title: "Sources",
    one: (/** @type {string} */ id) => `Source ${id}`,
    all: "All sources",
    add: "New source",
    make: "Make the source",
    readBy: "A rule reads its messages by",
    none:
      "There is no source yet. A source takes messages of a server elsewhere, such as another MQTT broker: rules " +
      "read them, or they are published here.",
    removeTitle: "Delete a source",
    removeText: () => "No rule reads it.",
    removeUsed: (/** @type {string[]} */ rules) =>
      `These rules read it, and get nothing of it then: ${rules.join(", ")}.`,
  },
};
