// What the page's modules find in a browser, as much of it as they use; imported before them.
import { register } from "node:module";

// Node takes `.js` for CommonJS; browsers do not.
const HOOK = `export const load = (url, context, next) =>
  next(url, url.endsWith(".js") ? { ...context, format: "module" } : context);`;
register(`data:text/javascript,${encodeURIComponent(HOOK)}`);

const page = new EventTarget();
Object.assign(globalThis, {
  addEventListener: page.addEventListener.bind(page),
  dispatchEvent: page.dispatchEvent.bind(page),
  document: Object.assign(new EventTarget(), { hidden: false }),
  location: { hash: "", pathname: "/", reload: () => {} },
  history: { replaceState: (_, __, address) => { location.hash = address; } },
  requestAnimationFrame: (draw) => setTimeout(draw),
  cancelAnimationFrame: (frame) => clearTimeout(frame),
});
