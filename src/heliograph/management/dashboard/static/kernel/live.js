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

/** @type {Map<string, Set<(value: any) => void>>} */
const wanted = new Map();
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
  const now = isSeen ? [...wanted.keys()].sort().join(",") : "";
  if (now === subjects && source?.readyState !== EventSource.CLOSED) return;
  source?.close();
  source = null;
  subjects = now;
  say(now ? "begins" : "off");
  if (now) open(now);
};

/** @param {string} names */
const open = (names) => {
  const opened = new EventSource(urlOf("heliograph/live", { of: names }));
  source = opened;
  /** @type {Set<string>} Subjects that the server cannot look at now. */
  const failing = new Set();
  opened.addEventListener("failed", (event) => {
    const { of } = JSON.parse(/** @type {MessageEvent} */ (event).data);
    if (of !== BEHIND) failing.add(of);
    if (failing.size) say("broken");
  });
  for (const name of names.split(",")) {
    opened.addEventListener(name, (event) => {
      failing.delete(name);
      say(failing.size ? "broken" : "on");
      const value = JSON.parse(/** @type {MessageEvent} */ (event).data);
      for (const take of wanted.get(name) ?? []) take(value);
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
 * @param {string} subject
 * @param {(value: any) => void} take
 * @returns {() => void} Ends it.
 */
const follow = (subject, take) => {
  const takers = wanted.get(subject) ?? new Set();
  wanted.set(subject, takers.add(take));
  plan();
  return () => {
    takers.delete(take);
    if (takers.size === 0) wanted.delete(subject);
    plan();
  };
};

/**
 * The newest value of a subject; undefined until it has come.
 * @param {string} subject Empty for none.
 */
export const useLive = (subject) => {
  const [value, setValue] = useState(/** @type {any} */ (undefined));
  useEffect(() => (subject ? follow(subject, setValue) : undefined), [subject]);
  return value;
};

export const useLiveState = () => useStore(liveState);
