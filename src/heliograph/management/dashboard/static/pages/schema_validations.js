// @ts-check
/** All schema validations in their order. */
import { html } from "../kernel/html.js";
import { PolicyList } from "./policies/list.js";

export default function SchemaValidationsPage() {
  return html`<${PolicyList} kind="schema_validations" />`;
}
