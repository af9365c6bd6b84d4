// @ts-check
/** What a page shows of the API: loaded when the page begins, kept while it is loaded again. */
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { loggedInAgain } from "./api.js";
import { useStore } from "./store.js";

/**
 * What is wrong, of the API or of the page.
 * @typedef {{ message: string, name?: string, status?: number, code?: string, field?: string }} Failure
 */

/** What was thrown. @param {unknown} caught @returns {Failure} */
export const failureOf = (caught) => (caught instanceof Error ? caught : { message: String(caught) });

/**
 * @template T
 * @typedef {{ data: T | undefined, error: Failure | null, isLoading: boolean, reload: () => void,
 *   set: (data: T) => void }} Resource
 */

/** @template T @typedef {{ key: string, data: T | undefined, error: Failure | null, isLoading: boolean }} State */

/**
 * Loads something, and again whenever the key is another one; an answer that is late is dropped.
 * @template T
 * @param {string} key What is wanted, as one text.
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @returns {Resource<T>}
 */
export const useResource = (key, load) => {
  const [state, setState] = useState(/** @type {State<T>} */ ({ key, data: undefined, error: null, isLoading: true }));
  const [turn, setTurn] = useState(0);
  const logins = useStore(loggedInAgain);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const abort = new AbortController();
    setState((old) => ({ ...(old.key === key ? old : { data: undefined, error: null }), key,
      isLoading: true }));
    latest.current(abort.signal).then(
      (data) => abort.signal.aborted || setState({ key, data, error: null, isLoading: false }),
      (error) => abort.signal.aborted || setState((old) => ({ ...old, error: failureOf(error), isLoading: false })),
    );
    return () => abort.abort();
  }, [key, turn, logins]);
  const reload = useCallback(() => setTurn((/** @type {number} */ old) => old + 1), []);
  const set = useCallback((/** @type {T} */ data) => setState({ key, data, error: null, isLoading: false }), [key]);
  const isSame = state.key === key;
  return { data: isSame ? state.data : undefined, error: isSame ? state.error : null, isLoading: state.isLoading,
    reload, set };
};

/**
 * Something that the user does: runs once at a time, and keeps its error until the next run.
 * @template {unknown[]} Args
 * @param {(...args: Args) => Promise<unknown>} act
 * @returns {{ run: (...args: Args) => Promise<boolean>, isRunning: boolean, error: Failure | null, clear: () => void }}
 */
export const useAction = (act) => {
  const [state, setState] = useState(/** @type {{ isRunning: boolean, error: Failure | null }} */ (
    { isRunning: false, error: null }));
  const isRunning = useRef(false);
  const isThere = useRef(true);
  useEffect(() => () => { isThere.current = false; }, []);
  const run = async (/** @type {Args} */ ...args) => {
    if (isRunning.current) return false;
    isRunning.current = true;
    setState({ isRunning: true, error: null });
    /** @type {Failure | null} */
    let error = null;
    try {
      await act(...args);
    } catch (caught) {
      error = failureOf(caught);
    }
    isRunning.current = false;
    if (isThere.current) setState({ isRunning: false, error });
    return error === null;
  };
  return { ...state, run, clear: () => setState({ isRunning: false, error: null }) };
};
