// @ts-check
/** All actions. */
import { html } from "../kernel/html.js";
import { IntegrationList } from "./integration/list.js";

export default function ActionsPage() {
  return html`<${IntegrationList} kind="actions" />`;
}
