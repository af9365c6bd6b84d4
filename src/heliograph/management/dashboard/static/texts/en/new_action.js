// @ts-check
/** English: a new action, step by step. */
export default {
  steps: "Steps",
  titles: ["Type and target", "Parameters", "A row, and the rule"],
  next: "Next",
  back: "Back",
  newConnector: (/** @type {string} */ type) => `A new connector of type ${type}`,
  isMade: (/** @type {string} */ id) => `The action ${id} is made. The rule is not: change it, and press again.`,
  rows: "Rows of",
  rowsHint: "The rule names the action, so its rows go to the target. A rule can name it later, too.",
  later: "no rule yet",
  newRule: "a new rule",
  rule: (/** @type {string} */ id) => `the rule ${id}`,
  noRules: "Your role may not change rules: a rule can name the action later.",
  columns: "Columns of the rule",
  pick: (/** @type {string} */ field) => (field ? `A press puts a column into ${field}.`
    : "Go to a field of text below: a press then puts a column into it."),
  noColumns: "Choose a rule, and its columns stand here. ${name} stands for a value of the row, ${.} for all of it.",
  put: (/** @type {string} */ what) => `Put ${what} into the field`,
  wholeRow: "the whole row",
  row: "A row, as JSON",
  rowHint: "What a rule makes of a message. The texts below are made of it; nothing is sent.",
  noJson: "This is no JSON object.",
  sample: "A row of the rule's sample message",
  sent: "What the templates make of it",
  noTemplate: "No setting is a template.",
  needsRow: "Give a row above.",
};
