// @ts-check
/** Who has logged in, and what they may do. */
import { api, loggedInAgain, loggedOut } from "./api.js";
import { createStore, useStore } from "./store.js";

/**
 * @typedef {{ name: string, kind: string, role: string, scopes: string[], node: string, version: string }} User
 * @typedef {{ state: "unknown" | "out" | "in" | "lost", user: User | null }} Session
 */

/** @type {import("./store.js").Store<Session>} */
export const session = createStore(/** @type {Session} */ ({ state: "unknown", user: null }));

export const useSession = () => useStore(session);

/** Where the cookie counts: below the path that a proxy may have given the page. */
const base = () => ({ "x-base-path": location.pathname.replace(/[^/]*$/, "") });

/** Find out whether the browser is logged in. */
export const loadSession = async () => {
  const user = await api.get("heliograph/session");
  if (!user.name) return end();
  const { state, user: before } = session.get();
  if (before && before.name !== user.name) {
    location.reload(); // what another user saw and typed, and the MQTT connection, are not left for this one
    return;
  }
  session.set({ state: "in", user });
  if (state === "lost") loggedInAgain.set(loggedInAgain.get() + 1);
};

/** Nobody is logged in any more: the page stays as it is, with what was typed, below the form to log in again. */
const end = () => {
  const { state, user } = session.get();
  if (state === "in") session.set({ state: "lost", user });
  if (state === "unknown") session.set({ state: "out", user: null });
};

/**
 * Log in; the answer has what the user should know.
 * @param {string} username @param {string} password @param {string} code Of a second factor.
 */
export const logIn = async (username, password, code) => {
  const body = { username, password, ...(code ? { mfa_token: code } : {}) };
  const answer = await api.post("login", body, { headers: base() });
  await loadSession();
  return answer;
};

/** @param {string} token @param {string} username @param {string} password */
export const setUp = async (token, username, password) => {
  await api.post("heliograph/set_up", { token, username, password }, { headers: base() });
  await loadSession();
};

export const logOut = async () => {
  await api.post("logout", { username: session.get().user?.name ?? "" }, { headers: base() });
  session.set({ state: "out", user: null });
};

/** Whether the user may do what needs a scope. @param {string} scope */
export const may = (scope) => scope === "" || (session.get().user?.scopes.includes(scope) ?? false);

loggedOut.subscribe(end);
