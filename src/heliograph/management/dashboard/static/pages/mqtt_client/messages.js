// @ts-check
/** The messages of the client, the newest first: so many and no more, told to the page at most some times a second. */
import { createStore } from "../../kernel/store.js";

const MOST = 500;
const KEPT_BYTES = 16 * 1024;
const TOLD_MS = 200;

/**
 * @typedef {{ id: number, at: number, isSent: boolean, topic: string, payload: Uint8Array, size: number, qos: number,
 *   retain: boolean, properties: Record<string, unknown>, key?: string }} Message
 * @typedef {{ isPaused: boolean, shown: Message[], since: number }} Messages
 */

/** What is shown, and how many came since it stands still. */
export const messages = createStore(/** @type {Messages} */ ({ isPaused: false, shown: [], since: 0 }));

/** @type {Message[]} */
let kept = [];
let number = 0;
let seen = 0;
let isPlanned = false;

const show = () => {
  isPlanned = false;
  const { isPaused, shown } = messages.get();
  if (!isPaused) seen = number;
  messages.set({ isPaused, shown: isPaused ? shown : [...kept], since: number - seen });
};

/**
 * Of a large payload the beginning is kept.
 * @param {Omit<Message, "id" | "at" | "size">} message
 */
export const addMessage = (message) => {
  const { payload } = message;
  const one = { ...message, id: ++number, at: Date.now(), size: payload.length, payload: payload.slice(0, KEPT_BYTES) };
  kept = [one, ...kept.slice(0, MOST - 1)];
  if (isPlanned) return;
  isPlanned = true;
  setTimeout(show, TOLD_MS);
};

/** @param {boolean} isPaused */
export const pause = (isPaused) => {
  messages.set({ ...messages.get(), isPaused });
  show();
};

export const clearMessages = () => {
  kept = [];
  seen = number;
  messages.set({ ...messages.get(), shown: [], since: 0 });
};
