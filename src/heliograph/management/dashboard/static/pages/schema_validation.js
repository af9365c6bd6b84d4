// @ts-check
/** One schema validation: made and changed. */
import { html } from "../kernel/html.js";
import { PolicyPage } from "./policies/page.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function SchemaValidationPage({ route }) {
  return html`<${PolicyPage} kind="schema_validations" name=${route.steps[1] ?? ""} />`;
}
