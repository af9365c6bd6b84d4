// Hooks in a component that draws nothing, and an API that answers when a test says so.
import "./browser.mjs";

const STATIC = new URL("../../../src/heliograph/management/dashboard/static/", import.meta.url);

/** A module of the page. */
export const load = (name) => import(new URL(name, STATIC));

const { html, render, useEffect } = await load("kernel/html.js");

/** Until `seen` is true of what the event loop does next. */
export const until = async (seen) => {
  while (!seen()) await new Promise((done) => setTimeout(done));
};

/** Has a component use a hook, and its effects: its newest value, with other arguments, and without the component. */
export const mount = async (hook, ...args) => {
  const parent = { nodeType: 1, childNodes: [], firstChild: null, namespaceURI: "http://www.w3.org/1999/xhtml" };
  const made = { now: undefined };
  let isDrawn = false;
  const Probe = ({ args: given }) => {
    made.now = hook(...given);
    useEffect(() => { isDrawn = true; }, []);
    return null;
  };
  made.use = (...given) => render(html`<${Probe} args=${given} />`, parent);
  made.leave = () => render(null, parent);
  made.use(...args);
  await until(() => isDrawn);
  return made;
};

/** Stands in for `fetch`: what is asked waits until it is answered. */
export const fakeApi = () => {
  const asked = [];
  globalThis.fetch = (url, { method = "GET", signal, body } = {}) => new Promise((done, fail) => {
    const end = () => fail(new DOMException("ended", "AbortError"));
    if (signal?.aborted) return end();
    signal?.addEventListener("abort", end);
    return asked.push({
      what: `${method} ${url.replace("api/v5/", "")}`,
      body: body && JSON.parse(body),
      answer: (data, status = 200) => done(new Response(data === null ? null : JSON.stringify(data), { status })),
      stream: (text) => done(new Response(text)),
    });
  });
  return {
    asked,
    /** The next question of that text that nobody has taken. */
    async next(what) {
      await until(() => asked.some((one) => one.what === what && !one.taken));
      const found = asked.find((one) => one.what === what && !one.taken);
      found.taken = true;
      return found;
    },
  };
};
