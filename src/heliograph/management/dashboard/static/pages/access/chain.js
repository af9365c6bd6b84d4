// @ts-check
/** Authenticators or sources in the order in which they are asked: how each is, what it said, and where it stands. */
import { html } from "../../kernel/html.js";
import { ApiError } from "../../kernel/api.js";
import { count, rate } from "../../kernel/format.js";
import { own } from "../../kernel/own.js";
import { useLiveRows } from "../../kernel/live_rows.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/access.js";

/** @typedef {Api.AuthenticatorObject | Api.SourceObject} Settings */

/**
 * @template {Settings} [T=Settings]
 * @typedef {{ name: string, settings: T, status: string, metrics: Record<string, number> }} Link
 */

/**
 * Links with how each is; one that was deleted since they were listed is left out.
 * @template {Settings} T
 * @param {T[]} list
 * @param {(settings: T) => string} nameOf
 * @param {(name: string) => Promise<Api.LinkStatus>} statusOf
 * @returns {Promise<Link<T>[]>}
 */
export const linksOf = async (list, nameOf, statusOf) => (await Promise.all(list.map(async (settings) => {
  const name = nameOf(settings);
  try {
    const { status, metrics } = await statusOf(name);
    return [{ name, settings, status, metrics }];
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return [];
    throw error;
  }
}))).flat();

/**
 * The chain with how each is as the stream tells it.
 * @template {Settings} T
 * @param {Record<string, Api.LiveState> | undefined} event
 * @param {{ data: { links: Link<T>[] } | undefined, reload: () => void }} chain
 * @returns {Link<T>[]}
 */
export const useLiveLinks = (event, chain) => {
  const { since } = useLiveRows(event, chain.data?.links,
    ({ name, settings }) => ({ id: name, enable: settings.enable }), chain.reload);
  return (chain.data?.links ?? []).map((link) => ({ ...link, ...since[link.name] }));
};

/**
 * @param {{ caption: string, title: string, links: Link[], counts: [string, string][], mayWrite: boolean,
 *   isBusy: boolean, empty: unknown, onMove: (name: string, position: string) => void,
 *   show: (kind: "change" | "delete", about: Link) => void, more?: (link: Link) => unknown }} props
 */
export const ChainTable = ({ caption, title, links, counts, mayWrite, isBusy, empty, onMove, show, more }) => {
  const at = (/** @type {Link} */ link) => links.indexOf(link);
  /** @type {import("../../parts/table.js").Column<Link>[]} */
  const columns = [
    { key: "at", title: texts.order, kind: "number", show: (link) => at(link) + 1 },
    { key: "name", title, kind: "code", isHead: true },
    { key: "status", title: texts.state, show: ({ status }) =>
      html`<span class=${`badge ${status === "connected" ? "good" : status === "stopped" ? "" : "bad"}`}>
      ${own(texts.states, status)}</span>` },
    ...counts.map(([key, name]) => ({ key, title: name, kind: /** @type {const} */ ("number"),
      show: (/** @type {Link} */ { metrics }) => html`${count(metrics[key])}
        ${key === "total" && metrics.rate ? html` <small class="quiet">${rate(metrics.rate)}</small>` : ""}` })),
    { key: "do", title: texts.actions, kind: "actions", isShown: mayWrite || Boolean(more), show: (link) => html`
      ${more?.(link)}
      ${mayWrite && html`
        <button type="button" aria-label=${texts.upNamed(link.name)} title=${texts.up} disabled=${at(link) === 0}
          onClick=${() => onMove(link.name, `before:${links[at(link) - 1].name}`)}>↑</button>
        <button type="button" aria-label=${texts.downNamed(link.name)} title=${texts.down}
          disabled=${at(link) === links.length - 1}
          onClick=${() => onMove(link.name, `after:${links[at(link) + 1].name}`)}>↓</button>
        <button type="button" aria-label=${texts.changeNamed(link.name)} onClick=${() => show("change", link)}>
          ${texts.change}</button>
        <button type="button" class="danger" aria-label=${texts.removeNamed(link.name)}
          onClick=${() => show("delete", link)}>${everywhere.remove}</button>`}` },
  ];
  return html`<${Table} caption=${caption} columns=${columns} rows=${links} rowKey="name"
    empty=${empty} isBusy=${isBusy} />`;
};
