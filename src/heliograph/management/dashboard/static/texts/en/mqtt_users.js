// @ts-check
/** English: users of MQTT clients. */
export default {
  title: "MQTT users",
  intro: "User names and passwords of MQTT clients, in the built-in database of the node.",
  of: "Authenticator",
  userId: "User",
  superuser: "Superuser",
  yes: "yes",
  no: "no",
  search: "Search",
  none: "No user here.",
  add: "Add a user",
  added: (/** @type {string} */ name) => `${name} can connect.`,
  password: "Password",
  newPassword: "New password",
  change: "Change",
  changeNamed: (/** @type {string} */ name) => `Change ${name}`,
  changed: (/** @type {string} */ name) => `${name} is changed.`,
  keepPassword: "Empty: it stays as it is.",
  superuserHint: "May do everything: no source of authorization is asked.",
  removeNamed: (/** @type {string} */ name) => `Delete ${name}`,
  removeText: (/** @type {string} */ name) => `${name} cannot connect any more. The rules that the name has stay.`,
  removed: (/** @type {string} */ name) => `${name} is deleted.`,
  actions: "Actions",
  noAuthenticator:
    "The node keeps no users yet. Add the first one, and from then on only clients with a user name and password " +
    "that are known may connect.",
  owner: { username: "User name", clientid: "Client id" },
  may: "What the user may do",
  mayPublish: "Publish to own topics, and nothing else",
  mayBoth: "Publish and subscribe to own topics, and nothing else",
  mayRules: "What the sources of authorization say for everybody",
  topics: "Own topics",
  topicsHint:
    "A topic filter; ${username} and ${clientid} stand for those of the client. A client id is what the client " +
    "says, unless mqtt.use_username_as_clientid or a precondition ties it to the user name.",
  also: "What happens besides",
  alsoAuthenticator:
    "The node keeps users from now on (a new authenticator). Clients without a user name and password that are " +
    "known cannot connect any more; those that are connected stay.",
  alsoSource: "The node keeps rules from now on (a new source, asked before the others).",
  alsoRules: (/** @type {string} */ name, /** @type {string[]} */ rules) =>
    `Rules of ${name || "the user"}: ${rules.join("; ")}.`,
  alsoDollar: "Other topics that begin with $ are left to the sources behind and to what is set for no match.",
  userExists: (/** @type {string} */ name) => `There is a user ${name} already.`,
  rulesExist: (/** @type {string} */ name) =>
    `There are rules for ${name} already, which stay as they are. ` +
    `Delete them under Authorization first, or choose another name.`,
  check: "See what a client may do",
};
