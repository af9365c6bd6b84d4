// @ts-check
/**
 * A form from a JSON Schema of settings (`/api/v5/schemas/hotconf`, or a part of it): the value goes in, the changed
 * one
 * comes out, and whoever uses it sends `differences(before, after)`. What is valid is the node's to say: errors stand
 * beside the fields that `problemsOf(error)` finds.
 */
import { html, useMemo } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { Form } from "./schema/form.js";
import { SchemaNode } from "./schema/node.js";

export {
  differences, dotted, isSame, namedProblems, namesOf, problemsOf, valueAt, withChanges, withValue,
} from "./schema/values.js";
export { resolved, schemaAt, tagsOf, variantOf } from "./schema/kinds.js";

/** @type {Promise<import("./schema/kinds.js").Schema> | null} */
let schema = null;

/** The JSON Schema of the whole configuration, asked for once. */
export const loadSchema = () => {
  schema ??= api.get(path("schemas/{name}", "hotconf")).catch((error) => {
    schema = null;
    throw error;
  });
  return schema;
};

/**
 * @param {{ schema: import("./schema/kinds.js").Schema, root?: object, value: unknown,
 *   onInput: (value: unknown) => void, errors?: Record<string, string>, path?: string[],
 *   note?: (path: string[]) => unknown, inherited?: (path: string[]) => Api.SettingShown | undefined,
 *   isChanged?: (path: string[]) => boolean, isReadOnly?: boolean }} props
 *   `root`: the whole schema, where `schema` is a part of one with references; `path`: what paths of errors begin with;
 *   `note`: what stands below a setting; `inherited`: what it is where it is not set, in place of its default.
 */
export const SchemaForm = ({ schema: of, root = of, value, onInput, errors = {}, path = [], note, inherited, isChanged,
  isReadOnly = false }) => {
  const form = useMemo(() => ({ Node: SchemaNode, root, errors, note, inherited, isChanged, isReadOnly }),
    [root, errors, note, inherited, isChanged, isReadOnly]);
  return html`<${Form.Provider} value=${form}><div class="schema-form">
    <${SchemaNode} schema=${of} value=${value} onInput=${onInput} path=${path} isFlat />
  </div><//>`;
};
