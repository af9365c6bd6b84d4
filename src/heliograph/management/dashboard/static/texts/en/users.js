// @ts-check
/** English: users of the dashboard and the API. */
export default {
  title: "Users",
  intro: "Who logs in here and over the HTTP API. Users of MQTT clients have a page of their own, MQTT users.",
  username: "User name",
  usernameHint: "Letters, digits and underscores.",
  password: "Password",
  passwordHint: "8 to 64 characters, with two of letters, digits and special characters.",
  role: "Role",
  /** @type {Record<string, string>} */
  roles: {
    administrator: "administrator: everything",
    operator: "operator: clients, rules, pipeline; no people, no configuration",
    viewer: "viewer: looks, changes nothing",
  },
  description: "Description",
  factor: "Second factor",
  hasFactor: "yes",
  noFactor: "no",
  backend: "Kept by",
  local: "this node",
  sso: "single sign-on",
  actions: "Actions",
  add: "Add a user",
  added: "The user can log in now.",
  change: "Change",
  changeNamed: (/** @type {string} */ name) => `Change ${name}`,
  loginsEnd: "The logins of this user end.",
  changed: (/** @type {string} */ name) => `${name} was changed.`,
  takeFactor: "Remove second factor",
  takeFactorOf: (/** @type {string} */ name) =>
    `${name} logs in with the password alone from then on, until a new second factor is set up. All logins of ` +
    `${name} end.`,
  deleteNamed: (/** @type {string} */ name) => `Delete ${name}`,
  deleteText: (/** @type {string} */ name) => `${name} cannot log in any more; all logins of ${name} end.`,
  deleted: (/** @type {string} */ name) => `${name} was deleted.`,
  none: "There is no user.",
};
