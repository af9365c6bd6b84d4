// @ts-check
/** Where the user is: `#/clients/sensor-1?tab=queue`. The rest of the address belongs to the server. */
import { createStore, useStore } from "./store.js";
import { queryText } from "./api.js";

/** @typedef {{ path: string, steps: string[], query: Record<string, string> }} Route */

/** @param {string} step */
const decoded = (step) => {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
};

/** @returns {Route} */
const read = () => {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const steps = path.split("/").filter((step) => step !== "").map(decoded);
  return { path, steps, query: Object.fromEntries(new URLSearchParams(query)) };
};

const route = createStore(read());
addEventListener("hashchange", () => route.set(read()));

export const useRoute = () => useStore(route);

/**
 * The address of a page: link("clients", "a/b", { tab: "queue" }).
 * @param {...(string | number | Record<string, unknown>)} parts
 */
export const link = (...parts) => {
  const steps = parts.filter((part) => typeof part !== "object").map((part) => encodeURIComponent(String(part)));
  const query = /** @type {Record<string, unknown>} */ (parts.find((part) => typeof part === "object") ?? {});
  return `#/${steps.join("/")}${queryText(query)}`;
};

/** @param {string} address Of `link`. */
export const navigate = (address) => {
  location.hash = address;
};

/**
 * Another query of the page that is shown; the browser's "back" passes over it.
 * @param {Record<string, unknown>} query
 */
export const replaceQuery = (query) => {
  history.replaceState(null, "", `#/${route.get().path}${queryText(query)}`);
  route.set(read());
};
