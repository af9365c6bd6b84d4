// @ts-check
/** All message transformations in their order. */
import { html } from "../kernel/html.js";
import { PolicyList } from "./policies/list.js";

export default function MessageTransformationsPage() {
  return html`<${PolicyList} kind="message_transformations" />`;
}
