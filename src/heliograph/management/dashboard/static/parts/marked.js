// @ts-check
/** Descriptions of settings, as documents write them. */
import { html } from "../kernel/html.js";

/** A description, with what stands in it between backticks as code. @param {string} [text] */
export const marked = (text = "") => text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
