// @ts-check
/** One message transformation: made and changed. */
import { html } from "../kernel/html.js";
import { PolicyPage } from "./policies/page.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function MessageTransformationPage({ route }) {
  return html`<${PolicyPage} kind="message_transformations" name=${route.steps[1] ?? ""} />`;
}
