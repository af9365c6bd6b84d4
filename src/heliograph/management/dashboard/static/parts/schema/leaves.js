// @ts-check
/** Fields of one value each: texts with units, numbers, choices, switches, secrets, lists of lines, JSON. */
import { html, useContext, useId, useRef, useState } from "../../kernel/html.js";
import { CheckField, Field } from "../field.js";
import { marked } from "../marked.js";
import { Form } from "./form.js";
import { STARS, isLong, scalarOf, wordsOf } from "./kinds.js";
import { dotted, isSame } from "./values.js";
import texts from "../../texts/en/schema_form.js";

/** @typedef {import("./form.js").NodeProps} NodeProps */

/** @param {unknown} value */
export const shown = (value) => (value === undefined || value === null ? "" : typeof value === "object"
  ? JSON.stringify(value) : String(value));

/**
 * What stands at a field: its name, its error, what it is for, what is valid, and where its value is from.
 * @param {NodeProps} props
 * @param {string} [how] How it is written.
 */
export const useLeaf = ({ schema, path, isRequired }, how = "") => {
  const form = useContext(Form);
  const valid = schema["x-expected"] && !schema.enum && schema.type !== "boolean" ? texts.valid(schema["x-expected"])
    : "";
  const usual = shown(schema.default);
  const fallback = usual === "" ? "" : schema["x-inherited"] ? texts.inherited(usual, schema["x-inherited"])
    : texts.fallback(usual);
  const facts = [isRequired ? texts.required : "", valid, fallback, how].filter(Boolean).join(" · ");
  return {
    label: path.at(-1) ?? "",
    error: form.errors[dotted(path)],
    hint: html`${marked(schema.description)}${facts && html`<small>${facts}</small>`}${form.note?.(path)}`,
    disabled: form.isReadOnly,
    autocomplete: "off",
  };
};

/**
 * What is typed stays as it is typed while it means the value.
 * @param {unknown} value
 * @param {(value: unknown) => string} show
 * @param {(text: string) => unknown} read
 * @param {(value: unknown) => void} onInput
 */
const useTyped = (value, show, read, onInput) => {
  const [typed, setTyped] = useState(/** @type {string | null} */ (null));
  const text = typed !== null && isSame(read(typed), value) ? typed : show(value);
  return { value: text, onInput: (/** @type {string} */ next) => { setTyped(next); onInput(read(next)); } };
};

/** @param {NodeProps} props */
export const ScalarField = (props) => {
  const { schema, value, onInput } = props;
  const id = useId();
  const words = wordsOf(schema);
  const typed = useTyped(value, shown, (text) => scalarOf(schema, text), onInput);
  const rows = isLong(schema, value) ? 6 : undefined;
  return html`<${Field} ...${useLeaf(props)} ...${typed} rows=${rows} list=${words.length && !rows ? id : undefined}
      placeholder=${shown(schema.default)} spellcheck=${false} />
    ${words.length > 0 && html`<datalist id=${id}>${words.map((word) =>
      html`<option value=${word}></option>`)}</datalist>`}`;
};

/** @param {NodeProps} props */
export const ChoiceField = (props) => {
  const { schema, value, onInput } = props;
  const words = schema.enum ?? [];
  const isDefault = value === undefined || value === null;
  const options = words.map((word, at) =>
    ({ value: String(at), label: shown(word) || texts.empty }));
  const none = { value: "", label: schema.default === undefined ? texts.choose
    : schema["x-inherited"] ? texts.asInherited(shown(schema.default)) : texts.asDefault(shown(schema.default)) };
  const at = words.indexOf(value);
  return html`<${Field} ...${useLeaf(props)} options=${isDefault || at < 0 ? [none, ...options] : options}
    value=${at < 0 ? "" : String(at)}
    onInput=${(/** @type {string} */ chosen) => onInput(chosen === "" ? undefined : words[Number(chosen)])} />`;
};

/** @param {NodeProps} props */
export const SwitchField = (props) => {
  const { schema, value, onInput } = props;
  const { label, error, hint, disabled } = useLeaf(props);
  const hints = html`${hint}${error && html`<span class="wrong">${error}</span>`}`;
  return html`<${CheckField} label=${label} hint=${hints} value=${value ?? schema.default ?? false} onInput=${onInput}
    disabled=${disabled} />`;
};

/** A secret that is set stays unless another one is typed. @param {NodeProps} props */
export const SecretField = (props) => {
  const { value, onInput } = props;
  const wasSet = useRef(value === STARS);
  wasSet.current ||= value === STARS;
  const isKept = value === STARS;
  const leaf = useLeaf(props);
  return html`<${Field} ...${leaf} type="password" autocomplete="new-password" value=${isKept ? "" : shown(value)}
      placeholder=${isKept ? texts.kept : ""} onInput=${(/** @type {string} */ text) =>
        onInput(text || (wasSet.current ? STARS : undefined))} />
    ${isKept && !leaf.disabled && !props.isRequired && html`<button type="button" class="plain"
      onClick=${() => { wasSet.current = false; onInput(undefined); }}>
      ${texts.forget(leaf.label)}</button>`}`;
};

/** @param {unknown} value */
const linesOf = (value) => (Array.isArray(value) ? value.map(shown) : shown(value) ? [shown(value)] : []).join("\n");

/** A list of texts, one a line. @param {NodeProps} props */
export const LinesField = (props) => {
  const { schema, value, onInput } = props;
  const items = schema.items ?? { anyOf: (schema.anyOf ?? []).map((one) => one.items ?? one) };
  const read = (/** @type {string} */ text) => text.split("\n").map((line) => scalarOf(items, line)).filter((line) =>
    line !== undefined);
  const held = Array.isArray(value) || value === undefined || value === null ? value : [value];
  const typed = useTyped(held, linesOf, read, onInput);
  return html`<${Field} ...${useLeaf(props, texts.oneALine)} ...${typed}
    rows=${Math.min(8, typed.value.split("\n").length + 1)} />`;
};

/** @param {unknown} value */
const jsonOf = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : shown(value));

/** @param {string} text */
const fromJson = (text) => {
  if (text.trim() === "") return undefined;
  try {
    return /^\s*[[{]/.test(text) ? JSON.parse(text) : text;
  } catch {
    return text; // the node says what is wrong with it
  }
};

/** @param {NodeProps} props */
export const JsonField = (props) => {
  const typed = useTyped(props.value ?? undefined, jsonOf, fromJson, props.onInput);
  return html`<${Field} ...${useLeaf(props, texts.asJson)} ...${typed}
    rows=${Math.min(16, typed.value.split("\n").length + 1)} />`;
};
