// @ts-check
/** What the user is told: an error with what to do, what is loaded, what is empty, and that something was done. */
import { html, useLayoutEffect, useRef } from "../kernel/html.js";
import { link } from "../kernel/router.js";
import { createStore, useStore } from "../kernel/store.js";
import texts from "../texts/en/everywhere.js";

const SHOWN_MS = 6000;
const notices = createStore(/** @type {{ id: number, text: string, stays: boolean }[]} */ ([]));
let number = 0;
const LOGIN_ENDED = new Set(["AUTHORIZATION_HEADER_ERROR", "TOKEN_TIME_OUT", "BAD_TOKEN"]);

/** Every change is refused so while another one is on trial. */
const ON_TRIAL = /^revision \d+ is on trial\b/;

/** @typedef {import("../kernel/resource.js").Failure} Failure */

/** @param {Failure | null | undefined} error */
export const messageOf = (error) => {
  if (error?.code === "UNREACHABLE") return texts.unreachable;
  if (error?.status === 401 && LOGIN_ENDED.has(error.code ?? "") && !error.field) return texts.loginEnded;
  return error?.message || texts.failed(error?.status ?? 0);
};

/**
 * An error; `again` tries once more.
 * @param {{ error: Failure | null | undefined, again?: () => void }} props
 */
export const ErrorNote = ({ error, again }) => error && html`
  <div class="note error" role="alert">
    <p>${messageOf(error)}</p>
    ${ON_TRIAL.test(error.message) && html`<p><a href=${link("configuration")} target="_blank" rel="noopener">
      ${texts.seeTrial}</a></p>`}
    ${again && html`<button type="button" onClick=${again}>${texts.tryAgain}</button>`}
  </div>`;

/** @param {{ children?: unknown }} props */
export const Empty = ({ children }) => html`<div class="note empty">${children}</div>`;

export const Loading = () => html`<p class="loading" role="status">${texts.loading}</p>`;

/**
 * What was loaded, or that it is loaded, or why it could not be.
 * @template T
 * @param {{ of: import("../kernel/resource.js").Resource<T>, children: (data: T) => unknown }} props
 */
export const Loaded = ({ of, children }) => html`
  <${ErrorNote} error=${of.error} again=${of.reload} />
  ${of.data !== undefined ? children(of.data) : !of.error && html`<${Loading} />`}`;

/** Tell that something was done. @param {string} text */
export const tell = (text) => {
  const id = show(text, false);
  setTimeout(() => close(id), SHOWN_MS);
};

/** Tell what must be seen: it stays until it is closed. @param {string} text */
export const warn = (text) => { show(text, true); };

/** @param {string} text @param {boolean} stays */
const show = (text, stays) => {
  const one = { id: ++number, text, stays };
  const before = notices.get();
  const going = before.filter((it) => !it.stays).slice(-2);
  notices.set([...before.filter((it) => it.stays || going.includes(it)), one]);
  return one.id;
};

/** @param {number} closed */
const close = (closed) => notices.set(notices.get().filter(({ id }) => id !== closed));

export const Notices = () => {
  const list = useStore(notices);
  return html`<div class="notices" role="status">${list.map(({ id, text, stays }) => html`<p key=${id}>${text}${
    stays && html` <button type="button" onClick=${() => close(id)}>${texts.close}</button>`}</p>`)}</div>`;
};

/**
 * The title of a page, which has the focus when the page comes.
 * @param {{ title: string, children?: unknown }} props
 */
export const PageHead = ({ title, children }) => {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { // before anybody can have gone on to a field of the page
    document.title = `${title} · Heliograph`;
    heading.current?.focus();
  }, [title]);
  return html`<header class="page-head"><h1 tabindex="-1" ref=${heading}>${title}</h1><div class="actions">
    ${children}</div></header>`;
};
