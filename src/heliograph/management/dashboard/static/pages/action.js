// @ts-check
/** One action: made, changed, tested. */
import { html } from "../kernel/html.js";
import { IntegrationEditor } from "./integration/editor.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function ActionPage({ route }) {
  return html`<${IntegrationEditor} kind="actions" id=${route.steps[1] ?? ""} type=${route.query.type ?? ""} />`;
}
