// @ts-check
/** Groups of fields, and fields of several choices or of names with values. */
import { html, useContext } from "../../kernel/html.js";
import { own, recordOf } from "../../kernel/own.js";
import { marked } from "../marked.js";
import { Form } from "./form.js";
import { kindOf, resolved, scalarOf, valuesOf } from "./kinds.js";
import { shown, useLeaf } from "./leaves.js";
import { listOf, withValue } from "./values.js";
import texts from "../../texts/en/schema_form.js";

/** @typedef {import("./form.js").NodeProps} NodeProps */

const DEEP = new Set(["group", "named", "list", "variant"]);

/** The fields of a group, single values first. @param {NodeProps} props */
export const GroupFields = ({ schema, value, onInput, path }) => {
  const { Node, root } = useContext(Form);
  const entries = Object.entries(schema.properties ?? {});
  const isDeep = (/** @type {import("./kinds.js").Schema} */ one) => DEEP.has(kindOf(resolved(one, root), root));
  const ordered = [...entries.filter(([, one]) => !isDeep(one)), ...entries.filter(([, one]) => isDeep(one))];
  return ordered.map(([name, one]) => html`
    <${Node} key=${name} schema=${one} value=${own(recordOf(value), name)} path=${[...path, name]}
      isRequired=${schema.required?.includes(name)}
      onInput=${(/** @type {unknown} */ next) => onInput(withValue(value, [name], next))} />`);
};

/** @param {NodeProps} props */
export const GroupField = (props) => {
  const { schema, path, isFlat } = props;
  if (isFlat) return html`<${GroupFields} ...${props} />`;
  return html`<fieldset><legend>${path.at(-1)}</legend>${schema.description
    && html`<p class="hint">${marked(schema.description)}</p>`}
    <${GroupFields} ...${props} /></fieldset>`;
};

/** Some of several words. @param {NodeProps} props */
export const ChoicesField = (props) => {
  const { schema, value, onInput } = props;
  const { root } = useContext(Form);
  const { label, error, hint, disabled } = useLeaf(props);
  const words = resolved(schema.items, root).enum ?? [];
  const chosen = listOf(value ?? schema.default);
  const turn = (/** @type {unknown} */ word) => onInput(words.filter((one) => (one === word) !== chosen.includes(one)));
  return html`<fieldset class="field plain"><legend>${label}</legend><p class="hint">${hint}</p>
    <div class="choices">${words.map((word) =>
      html`<label key=${word}><input type="checkbox" checked=${chosen.includes(word)}
      disabled=${disabled} onChange=${() => turn(word)} /> ${shown(word)}</label>`)}</div>
    ${error && html`<p class="wrong">${error}</p>`}</fieldset>`;
};

/** Names, each with a value. @param {NodeProps} props */
export const TextsField = (props) => {
  const { schema, value, onInput } = props;
  const { root } = useContext(Form);
  const { label, error, hint, disabled } = useLeaf(props);
  const values = valuesOf(schema, root);
  const pairs = Object.entries(recordOf(value ?? schema.default));
  const put = (/** @type {[string, unknown][]} */ next) => onInput(Object.fromEntries(next));
  const replace = (/** @type {number} */ at, /** @type {[string, unknown]} */ pair) =>
    put(pairs.map((old, index) => (index === at ? pair : old)));
  return html`<fieldset class="field plain"><legend>${label}</legend><p class="hint">${hint}</p>
    ${pairs.map(([name, one], at) => html`<div class="pair" key=${at}>
      <input aria-label=${texts.nameOf(label, at + 1)} value=${name} disabled=${disabled}
        onChange=${(/** @type {{ target: HTMLInputElement }} */ event) => replace(at, [event.target.value, one])} />
      <input aria-label=${texts.valueOf(label, name)} value=${shown(one)} disabled=${disabled}
        onInput=${(/** @type {{ target: HTMLInputElement }} */ event) =>
          replace(at, [name, scalarOf(values, event.target.value) ?? ""])} />
      ${!disabled && html`<button type="button" aria-label=${texts.removeNamed(name)}
        onClick=${() => put(pairs.filter((_, index) => index !== at))}>✕</button>`}
    </div>`)}
    ${!disabled && html`<button type="button" disabled=${pairs.some(([name]) => name === "")}
      onClick=${() => put([...pairs, ["", ""]])}>${texts.addPair}</button>`}
    ${error && html`<p class="wrong">${error}</p>`}</fieldset>`;
};
