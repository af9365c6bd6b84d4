// @ts-check
/** The open part of the tree, with the keys that people know from trees: arrows, Home, End, Enter. */
import { html, useLayoutEffect, useRef, useState } from "../../kernel/html.js";
import { cut } from "../../kernel/format.js";
import { messageOf } from "../../parts/notice.js";
import texts from "../../texts/en/topics.js";
import { canOpen, isMany } from "./levels.js";

const DEEPEST = 8;

/** @typedef {import("./levels.js").TreeItem} TreeItem */

/**
 * @param {{ items: TreeItem[], tree: ReturnType<typeof import("./levels.js").useLevels>,
 *   chosen: Api.TopicLevelObject | null, onChoose: (row: Api.TopicLevelObject) => void }} props
 */
export const Branches = ({ items, tree, chosen, onChoose }) => {
  const [current, setCurrent] = useState("");
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const hasMoved = useRef(false);
  const at = Math.max(0, items.findIndex(({ key }) => key === current));
  useLayoutEffect(() => {
    if (!hasMoved.current) return;
    hasMoved.current = false;
    /** @type {HTMLElement | null | undefined} */ (list.current?.querySelector('[tabindex="0"]'))?.focus();
  });
  const go = (/** @type {number} */ to) => {
    const item = items[Math.min(Math.max(to, 0), items.length - 1)];
    hasMoved.current = true;
    setCurrent(item.key);
  };
  const turn = (/** @type {TreeItem} */ item) => {
    if (item.level?.isOpen) tree.close(item.key);
    else if (item.kind === "topic") tree.open(item.key, item.row);
  };
  const act = (/** @type {TreeItem} */ item) => {
    setCurrent(item.key);
    if (item.kind === "topic") onChoose(item.row);
    else if (item.kind !== "loading") tree.more(item.above);
  };
  const keys = /** @type {Record<string, (item: TreeItem) => void>} */ ({
    ArrowDown: () => go(at + 1),
    ArrowUp: () => go(at - 1),
    Home: () => go(0),
    End: () => go(items.length - 1),
    Enter: act,
    " ": act,
    ArrowRight: (item) => {
      if (item.kind !== "topic" || !canOpen(item.row)) return;
      if (item.level?.isOpen) go(at + 1);
      else tree.open(item.key, item.row);
    },
    ArrowLeft: (item) => {
      if (item.level?.isOpen && item.kind === "topic") tree.close(item.key);
      else if (item.above) go(items.findIndex(({ key }) => key === item.above));
    },
  });
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const does = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!does || !items[at]) return;
    event.preventDefault();
    does(items[at]);
  };
  return html`
    <ul role="tree" class="tree" aria-label=${texts.tree} ref=${list} onKeyDown=${onKey}>
      ${items.map((item, index) => html`<${Branch} key=${item.key} item=${item} isCurrent=${index === at}
        isChosen=${item.row !== null && chosen === item.row} onTurn=${turn} onAct=${act} />`)}
    </ul>`;
};

/**
 * @param {{ item: TreeItem, isCurrent: boolean, isChosen: boolean, onTurn: (item: TreeItem) => void, onAct: (item:
 *   TreeItem) => void }} props
 */
const Branch = ({ item, isCurrent, isChosen, onTurn, onAct }) => {
  const { row, kind, depth } = item;
  const shared = { role: "treeitem", tabindex: isCurrent ? 0 : -1, "aria-level": depth,
    class: `level-${Math.min(depth, DEEPEST)} ${kind}` };
  if (kind !== "topic") return html`<li ...${shared} aria-selected="false" onClick=${() => onAct(item)}>
    <span class="twist"></span><span class="name">${wordsOf(item)}</span></li>`;
  const isOpen = canOpen(row) ? Boolean(item.level?.isOpen) : undefined;
  const turn = (/** @type {Event} */ event) => {
    event.stopPropagation();
    if (isOpen !== undefined) onTurn(item);
  };
  return html`
    <li ...${shared} aria-expanded=${isOpen === undefined ? undefined : String(isOpen)}
      aria-selected=${String(isChosen)} aria-setsize=${item.size} aria-posinset=${item.place}
      onClick=${() => onAct(item)} onDblClick=${turn}>
      <span class="twist" aria-hidden="true" onClick=${turn}>${isOpen === undefined ? "" : isOpen ? "▾" : "▸"}</span>
      <span class="name" title=${row.topic}>${nameOf(row)}</span>
      <span class="figure">${row.subscriptions === undefined ? texts.messages(row.messages ?? 0)
        : texts.subscriptions(row.subscriptions)}</span>
      <span class="figure rate">${row.subscriptions === undefined ? texts.rateOf(row.messages_per_second) : ""}</span>
    </li>`;
};

/** @param {Api.TopicLevelObject} row */
const nameOf = (row) => (isMany(row) ? texts.many : row.kind === "rest" ? texts.rest : cut(row.name || '""', 120));

/** @param {TreeItem} item */
const wordsOf = ({ kind, level }) => (kind === "more" ? texts.more : kind === "loading" ? texts.loading
  : `${messageOf(level?.error)} – ${texts.again}`);
