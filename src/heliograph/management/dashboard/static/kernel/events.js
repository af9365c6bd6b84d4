// @ts-check
/** A stream of events that one part of a page asks for and ends; a refusal is an `ApiError`, as elsewhere. */
import { ApiError, urlOf } from "./api.js";

const BLOCK_MAX = 1 << 22;

/**
 * @template {keyof Api.Streams} Where
 * @typedef {{ [Name in keyof Api.Streams[Where]]?: (data: Api.Streams[Where][Name]) => void }} Takers
 */

/**
 * Reads server-sent events of JSON until they end or are ended.
 * @template {keyof Api.Streams} Where
 * @param {Where} where
 * @param {import("./api.js").Query} query
 * @param {Takers<Where>} take What is called with the data of each event, by the names of events.
 * @param {AbortSignal} signal
 */
export const readEvents = async (where, query, take, signal) => {
  const response = await opened(urlOf(where, query), signal);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (waiting + decoder.decode(value, { stream: true })).split("\n\n");
    waiting = (blocks.pop() ?? "").slice(-BLOCK_MAX);
    for (const block of blocks) tell(block, take);
  }
};

/** @param {string} url @param {AbortSignal} signal */
const opened = async (url, signal) => {
  let response;
  try {
    response = await fetch(url, { signal, headers: { accept: "text/event-stream, application/json" } });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError(0, "UNREACHABLE", "");
  }
  if (response.ok && response.body) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(response.status, body.code ?? "", body.message ?? "");
};

/**
 * @template {keyof Api.Streams} Where
 * @param {string} block @param {Takers<Where>} take
 */
const tell = (block, take) => {
  const fields = new Map(block.split("\n").map((line) => /** @type {[string, string]} */ (line.split(/: ?(.*)/s, 2))));
  const data = fields.get("data");
  const name = /** @type {keyof Takers<Where>} */ (fields.get("event") ?? "message");
  if (data) take[name]?.(JSON.parse(data));
};
