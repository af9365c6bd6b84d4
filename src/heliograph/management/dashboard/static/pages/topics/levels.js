// @ts-check
/** The levels of the tree that are open: loaded when they are opened, a page at a time. */
import { useCallback, useEffect, useRef, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { failureOf } from "../../kernel/resource.js";

const LIMIT = 100;

/**
 * @typedef {{ query: Record<string, unknown>, rows: Api.TopicLevelObject[], meta: Api.TopicLevelMeta | null,
 *   isOpen: boolean, isLoading: boolean, error: import("../../kernel/resource.js").Failure | null }} Level
 * @typedef {{ key: string, depth: number, level: Level | undefined, size: number, place: number, above: string }} Place
 * @typedef {Place & ({ kind: "topic", row: Api.TopicLevelObject }
 *   | { kind: "more" | "loading" | "failed", row: null })} TreeItem
 */

export const ROOT = "";

/** Whether it stands for names that were too many to be learned. @param {Api.TopicLevelObject} row */
export const isMany = (row) => row.kind === "many" && row.subscriptions === undefined;

/** @param {Api.TopicLevelObject} row */
export const canOpen = (row) => row.has_children || isMany(row);

/**
 * What lists the names below one: those that were too many to be learned are looked for among messages.
 * @param {Api.TopicLevelObject} row
 */
const queryOf = (row) => (isMany(row) ? { below: row.topic.replace(/\/?\+$/, "") || undefined,
  source: "seen" } : { below: row.topic });

/** The open levels, and what opens and closes them. */
export const useLevels = () => {
  const [levels, setLevels] = useState(/** @type {Record<string, Level>} */ ({}));
  const latest = useRef(levels);
  latest.current = levels;
  const abort = useRef(new AbortController());
  const change = useCallback((/** @type {string} */ key, /** @type {Partial<Level>} */ more) =>
    setLevels((old) => ({ ...old, [key]: { ...old[key], ...more } })), []);
  const load = useCallback(async (/** @type {string} */ key, /** @type {Record<string, unknown>} */ query,
    /** @type {Level | undefined} */ before) => {
    const rows = before?.rows ?? [];
    change(key, { query, isOpen: true, isLoading: true, error: null, rows });
    try {
      const { data, meta } = await api.get("heliograph/topic_tree",
        { ...query, limit: LIMIT, cursor: before?.meta?.cursor }, abort.current.signal);
      change(key, { rows: [...rows, ...data], meta, isLoading: false });
    } catch (error) {
      if (!abort.current.signal.aborted) change(key, { error: failureOf(error), isLoading: false });
    }
  }, []);
  const refresh = useCallback(() => {
    abort.current.abort();
    abort.current = new AbortController();
    setLevels({});
    load(ROOT, {}, undefined);
  }, []);
  useEffect(() => {
    refresh();
    return () => abort.current.abort();
  }, []);
  const open = (/** @type {string} */ key, /** @type {Api.TopicLevelObject} */ row) => {
    const known = latest.current[key];
    if (known && !known.error) change(key, { isOpen: true });
    else load(key, queryOf(row), undefined);
  };
  const close = (/** @type {string} */ key) => change(key, { isOpen: false });
  const more = (/** @type {string} */ key) => load(key, latest.current[key].query, latest.current[key]);
  return { levels, open, close, more, refresh };
};

/**
 * What is seen of the tree, from top to bottom.
 * @param {Record<string, Level>} levels
 * @returns {TreeItem[]}
 */
export const itemsOf = (levels, key = ROOT, depth = 1) => {
  const level = levels[key];
  if (!level?.isOpen) return [];
  const size = level.rows.length;
  const items = level.rows.flatMap((row, place) => {
    const own = `${key}\n${row.name}`;
    const item = /** @type {TreeItem} */ ({ key: own, depth, row, level: levels[own], kind: "topic", size,
      place: place + 1, above: key });
    return [item, ...itemsOf(levels, own, depth + 1)];
  });
  const kind = level.isLoading ? "loading" : level.error ? "failed" : level.meta?.hasnext ? "more" : null;
  return kind ? [...items, { key: `${key}\n\n${kind}`, depth, row: null, level, kind, size, place: size, above: key }]
    : items;
};
