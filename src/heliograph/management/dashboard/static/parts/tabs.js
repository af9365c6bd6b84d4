// @ts-check
/** Tabs of a page: links, so that each has an address. */
import { html } from "../kernel/html.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { PageHead } from "./notice.js";

/**
 * @param {{ label: string, current: string, tabs: { id: string, title: string, href: string }[] }} props
 */
export const Tabs = ({ label, current, tabs }) => html`
  <nav class="tabs" aria-label=${label}>
    ${tabs.map(({ id, title, href }) => html`
      <a key=${id} href=${href} aria-current=${id === current ? "page" : undefined}>${title}</a>`)}
  </nav>`;

/**
 * A page that is nothing but its tabs, of which the user sees those that the scopes allow; the second step of the
 * address names one.
 * @typedef {import("../kernel/router.js").Route} Route
 * @typedef {{ id: string, title: string, View: (props: { route: Route }) => unknown, scope: string }} Tab
 * @param {{ title: string, tabs: Tab[], route: Route }} props
 */
export const TabbedPage = ({ title, tabs, route }) => {
  const [page, wanted] = route.steps;
  const shown = tabs.filter(({ scope }) => may(scope));
  const { id: current, View } = shown.find(({ id }) => id === wanted) ?? shown[0];
  const links = shown.map(({ id, title: name }) => ({ id, title: name, href: link(page, id) }));
  return html`
    <${PageHead} title=${title} />
    <${Tabs} label=${title} current=${current} tabs=${links} />
    <${View} route=${route} />`;
};
