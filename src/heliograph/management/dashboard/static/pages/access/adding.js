// @ts-check
/** Adds a user with rules of its own. The rules hold before the user is there, so that none is ever without them. */
import { ApiError, api, path } from "../../kernel/api.js";
import { RULES } from "./rules_dialog.js";
import texts from "../../texts/en/mqtt_users.js";

const BUILT_IN = { mechanism: "password_based", backend: "built_in_database" };

/**
 * @typedef {{ name: string, password: string, choice: string, topics: string }} NewUser
 * @typedef {Pick<Api.BuiltInRule, "permission" | "action" | "topic">} WrittenRule
 */

const ID = `${BUILT_IN.mechanism}:${BUILT_IN.backend}`;

/** The authenticators that keep users. @param {AbortSignal} [signal] @returns {Promise<string[]>} */
export const loadIds = async (signal) => (await api.get("authentication", {}, signal))
  .filter((one) => one.backend === BUILT_IN.backend).map((one) => one.id);

/**
 * Whether the node keeps rules, and whose rules users of an authenticator have: it knows them by user name or by
 * client id.
 * @param {string | undefined} id
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ hasSource: boolean, owner: "username" | "clientid" }>}
 */
export const loadAccess = async (id, signal) => {
  const [{ sources }, chain] = await Promise.all([api.get("authorization/sources", {}, signal),
    api.get("authentication", {}, signal)]);
  const keeper = chain.find((one) => one.id === id);
  return {
    hasSource: sources.some((one) => one.type === BUILT_IN.backend),
    owner: keeper?.user_id_type === "clientid" ? "clientid" : "username",
  };
};

/** What `#` does not have: topics that begin with `$`. @param {NewUser} user */
export const rulesFor = ({ choice, topics }) => (choice === "rules" ? [] : [
  { permission: "allow", action: choice, topic: topics },
  { permission: "deny", action: "all", topic: "#" },
  { permission: "deny", action: "all", topic: "$SYS/#" },
]);

const MOST = 1000;

/** @param {string} id @param {string} name */
const hasUser = async (id, name) => (await api.get(path("authentication/{id}/users", id),
  { like_user_id: name, limit: MOST })).data
  .some((one) => one.user_id === name);

/**
 * @param {NewUser} user
 * @param {string | undefined} id The authenticator that keeps users; undefined where there is none yet.
 * @param {"username" | "clientid"} owner
 */
export const addUser = async (user, id, owner) => {
  const { name, password } = user;
  const rules = rulesFor(user);
  if (id && await hasUser(id, name)) throw new ApiError(409, "ALREADY_EXISTS", texts.userExists(name));
  if (rules.length > 0) {
    if (!(await loadAccess(id)).hasSource) await api.post("authorization/sources", { type: BUILT_IN.backend });
    await putRules(owner, name, rules);
  }
  if (!id && !(await loadIds()).includes(ID)) await api.post("authentication", BUILT_IN);
  await api.post(path("authentication/{id}/users", id ?? ID), { user_id: name, password });
};

/** @param {Api.RulesOfUser | Api.RulesOfClient} one */
export const nameOf = (one) => ("username" in one ? one.username : one.clientid);

/** @param {WrittenRule[]} rules */
const inWords = (rules) => rules.map(({ permission, action, topic }) => [permission, action, topic].join(" ")).join();

/** @param {"username" | "clientid"} owner @param {string} name @param {WrittenRule[]} rules */
const putRules = async (owner, name, rules) => {
  const where = /** @type {const} */ (`${RULES}/${owner === "username" ? "users" : "clients"}`);
  const { data } = await api.get(where, { [`like_${owner}`]: name, limit: MOST });
  const held = data.find((/** @type {Api.RulesOfUser | Api.RulesOfClient} */ one) => nameOf(one) === name);
  if (!held) await api.post(where, [{ [owner]: name, rules }]);
  else if (inWords(held.rules) !== inWords(rules)) throw new ApiError(409, "ALREADY_EXISTS", texts.rulesExist(name));
};
