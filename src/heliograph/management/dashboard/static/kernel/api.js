// @ts-check
/** The one way to ask the API: below the page's own address, as the user who has logged in. */
import { createStore } from "./store.js";

const BASE = "api/v5/";

/** Counts up when an answer says that nobody is logged in any more. */
export const loggedOut = createStore(0);

/** Counts up when somebody has logged in again behind a page that is open: what it shows is loaded anew. */
export const loggedInAgain = createStore(0);

export class ApiError extends Error {
  /**
   * @param {number} status The status of HTTP; 0 where no answer came.
   * @param {string} code The code of the error.
   * @param {string} message What the API says.
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
    /** The field that caused it, as `config.port`; empty where the API names none. */
    this.field = fieldOf(message);
  }
}

/** @param {string} message */
const fieldOf = (message) => /^([A-Za-z_$][\w$]*(?:[.[][\w$\]]+)*)(?: = [^:]*)?: /.exec(message)?.[1] ?? "";

/**
 * One part of a path. Browsers take `.` and `..` for folders, however they are encoded: the API knows them with a NUL.
 * @param {unknown} value
 */
export const step = (value) => encodeURIComponent(String(value)) + (/^\.{1,2}$/.test(String(value)) ? "%00" : "");

/**
 * A path of the document of the API with its parameters: path("clients/{clientid}/subscriptions", id). For TypeScript
 * it stays the path of the document, which says what `api` answers.
 * @template {string} Path
 * @param {Path} template
 * @param {...(string | number)} values
 */
export const path = (template, ...values) =>
  /** @type {Path} */ (template.replace(/\{\w+\}/g, () => step(values.shift())));

/**
 * A query of those values that are not empty.
 * @param {Query} query
 */
export const queryText = (query) => {
  const pairs = Object.entries(query).flatMap(([name, value]) => (Array.isArray(value) ? value : [value])
    .filter((one) => one !== undefined && one !== null && one !== "").map((one) => [name, String(one)]));
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
};

/** @param {string} where @param {Query} [query] */
export const urlOf = (where, query = {}) => BASE + where + queryText(query);

/**
 * Ask what need not be in the document.
 * @typedef {Record<string, unknown>} Query
 * @typedef {{ query?: Query, body?: unknown, signal?: AbortSignal, headers?: Record<string, string> }} Request
 * @param {string} method
 * @param {string} where
 * @param {Request} request
 */
export const ask = async (method, where, { query = {}, body, signal, headers = {} }) => {
  const isReady = body === undefined || body instanceof FormData || body instanceof Blob; // the browser names its type
  /** @type {Record<string, string>} */
  const type = isReady ? {} : { "content-type": "application/json" };
  let response;
  try {
    response = await fetch(urlOf(where, query), {
      method, signal, headers: { accept: "application/json", ...type, ...headers },
      body: isReady ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "UNREACHABLE", "");
  }
  const text = await response.text();
  const answer = parsed(text);
  if (response.ok) return answer;
  if (response.status === 401 && where !== "login") loggedOut.set(loggedOut.get() + 1);
  throw new ApiError(response.status, answer?.code ?? "", messageOf(answer, text));
};

/** @param {string} text */
const parsed = (text) => {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return text;
  }
};

/** @param {{ message?: unknown } | null} answer @param {string} text */
const messageOf = (answer, text) => {
  const message = answer?.message ?? text;
  return typeof message === "string" ? message : JSON.stringify(message);
};

// What answers are, scripts/api_types.py makes from the document of the API.
export const api = {
  /**
   * @template {keyof Api.Gets} Path
   * @param {Path} where @param {Query} [query] @param {AbortSignal} [signal]
   * @returns {Promise<Api.Gets[Path]>}
   */
  get: (where, query, signal) => ask("GET", where, { query, signal }),
  /**
   * @template {keyof Api.Posts} Path
   * @param {Path} where @param {unknown} [body] @param {Request} [more]
   * @returns {Promise<Api.Posts[Path]>}
   */
  post: (where, body, more = {}) => ask("POST", where, { body, ...more }),
  /**
   * @template {keyof Api.Puts} Path
   * @param {Path} where @param {unknown} [body] @param {Request} [more]
   * @returns {Promise<Api.Puts[Path]>}
   */
  put: (where, body, more = {}) => ask("PUT", where, { body, ...more }),
  /**
   * @template {keyof Api.Deletes} Path
   * @param {Path} where @param {Request} [more]
   * @returns {Promise<Api.Deletes[Path]>}
   */
  del: (where, more = {}) => ask("DELETE", where, more),
};
