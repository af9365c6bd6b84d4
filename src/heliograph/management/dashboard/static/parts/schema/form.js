// @ts-check
/** What all places of a form know: the whole schema, what is wrong, and what shows a place within another one. */
import { createContext } from "../../kernel/html.js";

/**
 * @typedef {import("./kinds.js").Schema} Schema
 * @typedef {{ Node: (props: NodeProps) => unknown, root: Schema, errors: Record<string, string>,
 *   note?: (path: string[]) => unknown, inherited?: (path: string[]) => Api.SettingShown | undefined,
 *   isChanged?: (path: string[]) => boolean, isReadOnly: boolean }} FormContext
 * @typedef {{ schema: Schema, value: unknown, onInput: (value: unknown) => void, path: string[], isRequired?: boolean,
 *   isFlat?: boolean }} NodeProps
 */

export const Form = createContext(/** @type {FormContext} */ ({ Node: () => null, root: {}, errors: {},
  isReadOnly: false }));
