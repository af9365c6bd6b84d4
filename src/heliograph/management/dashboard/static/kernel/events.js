// @ts-check
/** A stream of events that one part of a page asks for and ends; a refusal is an `ApiError`, as elsewhere. */
import { ApiError, urlOf } from "./api.js";

const BLOCK_MAX = 1 << 22;

/**
 * Reads server-sent events of JSON until they end or are ended.
 * @param {string} where
 * @param {Record<string, any>} query
 * @param {(name: string, data: any) => void} take
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
  throw new ApiError(response.status, body.code ?? "", body.message ?? "", body);
};

/** @param {string} block @param {(name: string, data: any) => void} take */
const tell = (block, take) => {
  const fields = new Map(block.split("\n").map((line) => /** @type {[string, string]} */ (line.split(/: ?(.*)/s, 2))));
  const data = fields.get("data");
  if (data) take(fields.get("event") ?? "message", JSON.parse(data));
};
