// @ts-check
/** One connector: made, changed, tested. */
import { html } from "../kernel/html.js";
import { IntegrationEditor } from "./integration/editor.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function ConnectorPage({ route }) {
  return html`<${IntegrationEditor} kind="connectors" id=${route.steps[1] ?? ""} type=${route.query.type ?? ""} />`;
}
