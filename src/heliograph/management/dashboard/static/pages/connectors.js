// @ts-check
/** All connectors. */
import { html } from "../kernel/html.js";
import { IntegrationList } from "./integration/list.js";

export default function ConnectorsPage() {
  return html`<${IntegrationList} kind="connectors" />`;
}
