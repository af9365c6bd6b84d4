// @ts-check
/** What an operation is sent: JSON, text, a form with files, or a file. */
import { html } from "../../kernel/html.js";
import { Field, FileField } from "../../parts/field.js";
import { example, resolved } from "./schemas.js";
import texts from "../../texts/en/operations.js";

/**
 * A body as it is being written: its type, its text, and the parts of its form.
 * @typedef {{ type: string, text: string, parts: Record<string, string | File> }} Draft
 * @typedef {{ type: string, schema: import("./schemas.js").Schema }} Kind
 */

const FORM = "multipart/form-data";
const ONE = ""; // the name of a file that is the whole body

/**
 * What an operation takes, without references.
 * @param {import("./schemas.js").About} about @param {import("./schemas.js").ApiDocument} document
 * @returns {Kind[]}
 */
export const kindsOf = (about, document) => Object.entries(about.requestBody?.content ?? {}).map(([type, { schema }]) =>
  ({ type, schema: resolved(schema, document) }));

/** @param {Kind | undefined} kind @returns {Draft} */
export const begun = (kind) => ({ type: kind?.type ?? "", parts: {},
  text: kind?.type === "application/json" ? JSON.stringify(example(kind.schema), null, 2) : "" });

/** @param {string} type */
const isText = (type) => type === "application/json" || type.startsWith("text/");

/** What is sent. @param {Draft} draft */
export const bodyOf = ({ type, text, parts }) => {
  if (type === FORM) return Object.entries(parts).reduce((form, [name, value]) => {
    form.append(name, value);
    return form;
  }, new FormData());
  if (type === "" || (isText(type) && text.trim() === "")) return undefined;
  if (type === "application/json") return parsed(text);
  return new Blob([isText(type) ? text : parts[ONE] ?? ""], { type });
};

/** @param {string} typed */
const parsed = (typed) => {
  try {
    return JSON.parse(typed);
  } catch (error) {
    throw new Error(texts.noJson(/** @type {Error} */ (error).message));
  }
};

/** @param {{ kinds: Kind[], draft: Draft, onInput: (draft: Draft) => void }} props */
export const BodyFields = ({ kinds, draft, onInput }) => {
  const kind = kinds.find(({ type }) => type === draft.type);
  if (!kind) return null;
  const put = (/** @type {string} */ name) => (/** @type {string | File} */ value) => {
    const { [name]: _, ...others } = draft.parts;
    onInput({ ...draft, parts: value ? { ...others, [name]: value } : others });
  };
  return html`
    ${kinds.length > 1 && html`<${Field} label=${texts.sentAs} value=${kind.type}
      options=${kinds.map(({ type }) => type)}
      onInput=${(/** @type {string} */ chosen) => onInput(begun(kinds.find(({ type }) => type === chosen)))} />`}
    ${isText(kind.type) ? html`<${Field} label=${texts.theBody} value=${draft.text}
      rows=${Math.min(12, draft.text.split("\n").length + 1)}
      onInput=${(/** @type {string} */ text) => onInput({ ...draft, text })} />`
      : kind.type === FORM ? Object.entries(kind.schema.properties ?? {}).map(([name, one]) => (one.format === "binary"
        ? html`<${FileField} key=${name} label=${name} onInput=${put(name)}
          isRequired=${kind.schema.required?.includes(name)} />`
        : html`<${Field} key=${name} label=${name} value=${draft.parts[name] ?? ""} onInput=${put(name)} />`))
      : html`<${FileField} label=${texts.file} onInput=${put(ONE)} isRequired />`}`;
};
