// @ts-check
/** Markup in modules: `html` makes elements of Preact from a template, without a build. */
import { h } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export const html = htm.bind(h);
/** Of a form: what it does when it is sent, in place of what browsers do. @param {() => unknown} act */
export const submitting = (act) => (/** @type {Event} */ event) => {
  event.preventDefault();
  act();
};
export { createContext, Fragment, render } from "../vendor/preact.mjs";
export {
  useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState,
} from "../vendor/hooks.mjs";
