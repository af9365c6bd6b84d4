// @ts-check
/** Tables of rows: with a caption, sorted and chosen where a page wants it, scrolled sideways where they are wide. */
import { html } from "../kernel/html.js";
import { Empty } from "./notice.js";
import texts from "../texts/en/everywhere.js";

/**
 * `isShown`: false where the column is left out.
 * @template Row
 * @typedef {{ key: string, title: string, show?: (row: Row) => unknown, isShown?: boolean,
 *   kind?: "number" | "text" | "code" | "time" | "actions", isSortable?: boolean, isHead?: boolean }} Column
 */

/**
 * @typedef {Record<string, unknown>} Row
 * @typedef {{ by: string, isDown: boolean }} Sort
 * @typedef {{ keys: Set<string>, set: (keys: Set<string>) => void }} Chosen
 */

/**
 * @param {{ caption: string, columns: Column<Row>[], rows: Row[], rowKey: string | ((row: Row) => string),
 *   empty?: unknown, sort?: Sort, onSort?: (sort: Sort) => void, chosen?: Chosen, isBusy?: boolean }} props
 *   `rowKey`: what tells rows apart, or the names of what does, with spaces between them.
 */
export const Table = ({ caption, columns: all, rows, rowKey, empty, sort, onSort, chosen, isBusy = false }) => {
  if (rows.length === 0 && empty !== undefined) return html`<${Empty}>${empty}<//>`;
  const columns = all.filter(({ isShown = true }) => isShown);
  const keyOf = typeof rowKey === "function" ? rowKey : (/** @type {Row} */ row) =>
    rowKey.split(" ").map((name) => row[name]).join("\0");
  return html`
    <div class="table" role="region" aria-label=${caption} tabindex="0" aria-busy=${isBusy}>
      <table>
        <caption>${caption}</caption>
        <thead><tr>
          ${chosen && html`<th scope="col"><${ChooseAll} chosen=${chosen} keys=${rows.map(keyOf)} /></th>`}
          ${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${sort} onSort=${onSort} />`)}
        </tr></thead>
        <tbody>${rows.map((row) => html`
          <tr key=${keyOf(row)}>
            ${chosen && html`<td><${Choose} chosen=${chosen} name=${keyOf(row)} /></td>`}
            ${columns.map((column) => cell(column, row))}
          </tr>`)}</tbody>
      </table>
    </div>`;
};

/** @param {Column<Row>} column @param {Row} row */
const cell = (column, row) => {
  const shown = column.show ? column.show(row) : row[column.key];
  return column.isHead ? html`<th scope="row" class=${column.kind ?? "text"}>${shown}</th>`
    : html`<td class=${column.kind ?? "text"}>${shown}</td>`;
};

/** @param {{ column: Column<Row>, sort?: Sort, onSort?: (sort: Sort) => void }} props */
const Head = ({ column, sort, onSort }) => {
  const isBy = sort?.by === column.key;
  const order = isBy ? (sort.isDown ? "descending" : "ascending") : undefined;
  const turn = () => onSort?.({ by: column.key, isDown: isBy ? !sort.isDown : true });
  return html`
    <th scope="col" class=${column.kind ?? "text"} aria-sort=${order}>
      ${column.isSortable && onSort
        ? html`<button type="button" class="sort" onClick=${turn}>${column.title}<span aria-hidden="true">
          ${isBy ? (sort.isDown ? " ▾" : " ▴") : " ↕"}</span></button>`
        : column.title}
    </th>`;
};

/** @param {{ chosen: Chosen, name: string }} props */
const Choose = ({ chosen, name }) => {
  const turn = () => {
    const keys = new Set(chosen.keys);
    if (!keys.delete(name)) keys.add(name);
    chosen.set(keys);
  };
  return html`<input type="checkbox" aria-label=${texts.choose(name)} checked=${chosen.keys.has(name)}
    onChange=${turn} />`;
};

/** @param {{ chosen: Chosen, keys: string[] }} props */
const ChooseAll = ({ chosen, keys }) => {
  const isAll = keys.length > 0 && keys.every((key) => chosen.keys.has(key));
  const turn = () => chosen.set(isAll ? new Set() : new Set([...chosen.keys, ...keys]));
  return html`<input type="checkbox" aria-label=${texts.chooseAll} checked=${isAll} onChange=${turn} />`;
};

/**
 * Further pages of a list.
 * @param {{ hasMore: boolean, hasBefore: boolean, onMore: () => void, onBefore: () => void, children?: unknown }} props
 */
export const Pager = ({ hasMore, hasBefore, onMore, onBefore, children }) => html`
  <nav class="pager" aria-label=${texts.pages}>
    <span>${children}</span>
    <button type="button" disabled=${!hasBefore} onClick=${onBefore}>${texts.previous}</button>
    <button type="button" disabled=${!hasMore} onClick=${onMore}>${texts.next}</button>
  </nav>`;
