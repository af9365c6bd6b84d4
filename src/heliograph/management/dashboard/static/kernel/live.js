// @ts-check
/** What changes while it is looked at: one stream of events for the whole page, of all subjects that it shows. */
import { useEffect, useState } from "./html.js";
import { loadSession } from "./session.js";
import { createStore, useStore } from "./store.js";
import { urlOf } from "./api.js";

/** A subject that every page follows; there is no sign for it alone. */
export const BEHIND = "configuration";

/** Whether the stream brings what the page shows: `on`, `begins`, or `broken` until it is there again. */
const liveState = createStore(/** @type {"off" | "begins" | "on" | "broken"} */ ("off"));

/** @typedef {Api.Streams["heliograph/live"]} Events */

/** Who follows a subject. @type {Map<keyof Events, Set<() => void>>} */
const wanted = new Map();
/** @type {Partial<Events>} */
const newest = {};
/** @type {EventSource | null} */
let source = null;
let subjects = "";
let isPlanned = false;
let isSeen = true;

/** A page that nobody has looked at for so long asks nothing: a browser has few connections to one server. */
const UNSEEN_MS = 60_000;

/** @param {"off" | "begins" | "on" | "broken"} state */
const say = (state) => liveState.set([...wanted.keys()].some((name) => name !== BEHIND) ? state : "off");

const begin = () => {
  isPlanned = false;
  const names = isSeen ? [...wanted.keys()].sort() : [];
  const now = names.join(",");
  if (now === subjects && source?.readyState !== EventSource.CLOSED) return;
  source?.close();
  source = null;
  subjects = now;
  say(now ? "begins" : "off");
  if (now) open(names);
};

/** @param {(keyof Events)[]} names */
const open = (names) => {
  const opened = new EventSource(urlOf("heliograph/live", { of: names.join(",") }));
  source = opened;
  /** @type {Set<string>} Subjects that the server cannot look at now. */
  const failing = new Set();
  opened.addEventListener("failed", (event) => {
    const { of } = JSON.parse(/** @type {MessageEvent} */ (event).data);
    if (of !== BEHIND) failing.add(of);
    if (failing.size) say("broken");
  });
  for (const name of names) {
    opened.addEventListener(name, (event) => {
      failing.delete(name);
      say(failing.size ? "broken" : "on");
      newest[name] = JSON.parse(/** @type {MessageEvent} */ (event).data);
      for (const listener of wanted.get(name) ?? []) listener();
    });
  }
  opened.addEventListener("error", () => {
    if (source !== opened) return;
    say("broken");
    loadSession().catch(() => {}); // it says whether the login has ended
    if (opened.readyState === EventSource.CLOSED) setTimeout(plan, 3000);
  });
};

const plan = () => {
  if (isPlanned) return;
  isPlanned = true;
  queueMicrotask(begin);
};

/** @type {ReturnType<typeof setTimeout> | undefined} */
let unseen;

const see = (/** @type {boolean} */ now) => {
  isSeen = now;
  plan();
};

document.addEventListener("visibilitychange", () => {
  clearTimeout(unseen);
  if (document.hidden) unseen = setTimeout(() => see(false), UNSEEN_MS);
  else if (!isSeen) see(true);
});

/**
 * @param {keyof Events} subject
 * @param {() => void} listener
 * @returns {() => void} Ends it.
 */
const follow = (subject, listener) => {
  const takers = wanted.get(subject) ?? new Set();
  wanted.set(subject, takers.add(listener));
  plan();
  return () => {
    takers.delete(listener);
    if (takers.size === 0) wanted.delete(subject);
    plan();
  };
};

/**
 * The newest value of a subject; undefined until it has come.
 * @template {keyof Events} Subject
 * @param {Subject | ""} subject Empty for none.
 */
export const useLive = (subject) => {
  const [value, setValue] = useState(/** @type {Events[Subject] | undefined} */ (undefined));
  useEffect(() => (subject ? follow(subject, () => setValue(() => newest[subject])) : undefined), [subject]);
  return value;
};

export const useLiveState = () => useStore(liveState);
