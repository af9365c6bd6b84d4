// @ts-check
/** Groups of which there are many: named ones, lists in their order, and one of several kinds. */
import { html, useContext, useState } from "../../kernel/html.js";
import { Field } from "../field.js";
import { GroupFields } from "./groups.js";
import { marked } from "../marked.js";
import { Form } from "./form.js";
import { resolved, tagsOf, variantOf } from "./kinds.js";
import { dotted, withValue } from "./values.js";
import texts from "../../texts/en/schema_form.js";

/** @typedef {import("./form.js").NodeProps} NodeProps */

/** One of several kinds, which its tags tell apart. @param {NodeProps} props */
export const VariantField = (props) => {
  const { schema, value, onInput, path } = props;
  const { isReadOnly, errors } = useContext(Form);
  const at = variantOf(schema, value);
  const options = schema.oneOf.map((/** @type {any} */ one, /** @type {number} */ index) =>
    ({ value: String(index), label: one.title }));
  const choose = (/** @type {string} */ index) => index !== ""
    && onInput(Object.fromEntries(tagsOf(schema.oneOf[Number(index)])));
  return html`
    <${Field} label=${texts.kind} options=${at < 0 ? [{ value: "", label: texts.choose }, ...options] : options}
      value=${at < 0 ? "" : String(at)}
      onInput=${choose} disabled=${isReadOnly} error=${errors[dotted(path)]} />
    ${at >= 0 && html`<${GroupFields} ...${props} schema=${schema.oneOf[at]} />`}`;
};

/** @param {any} schema @param {any} value */
const titleOf = (schema, value) => (schema.oneOf && schema.oneOf[variantOf(schema, value)]?.title)
  || value?.name || value?.topic || Object.values(value ?? {}).find((one) => typeof one === "string") || "";

/** Groups in their order. @param {NodeProps} props */
export const ListField = ({ schema, value, onInput, path, isFlat }) => {
  const { Node, root, isReadOnly, errors, note } = useContext(Form);
  const items = resolved(schema.items, root);
  const [made, setMade] = useState(-1);
  const list = value ?? [];
  const name = path.at(-1) ?? "";
  const move = (/** @type {number} */ from, /** @type {number} */ to) => {
    const next = list.filter((/** @type {unknown} */ _, /** @type {number} */ at) => at !== from);
    onInput([...next.slice(0, to), list[from], ...next.slice(to)]);
    setMade(-1);
  };
  const add = () => {
    onInput([...list, {}]);
    setMade(list.length);
  };
  return html`<${Frame} name=${name} schema=${schema} isFlat=${isFlat}>
    ${note && html`<p class="hint">${note(path)}</p>`}
    ${errors[dotted(path)] && html`<p class="wrong">${errors[dotted(path)]}</p>`}
    ${list.map((/** @type {unknown} */ one, /** @type {number} */ at) =>
      html`<details key=${at} open=${at === made || hasError(errors, [...path, String(at + 1)])}>
      <summary>${at + 1}. ${titleOf(items, one)}</summary>
      ${!isReadOnly && html`<p class="actions">
        <button type="button" disabled=${at === 0} onClick=${() => move(at, at - 1)}>${texts.up}</button>
        <button type="button" disabled=${at === list.length - 1} onClick=${() => move(at, at + 1)}>
          ${texts.down}</button>
        <button type="button" class="danger" onClick=${() =>
          onInput(list.filter((/** @type {unknown} */ _, /** @type {number} */ index) => index !== at))}>
          ${texts.removeNamed(`${name} ${at + 1}`)}</button></p>`}
      <${Node} schema=${items} value=${one} path=${[...path, String(at + 1)]} isFlat
        onInput=${(/** @type {unknown} */ next) =>
          onInput(list.map((/** @type {unknown} */ old, /** @type {number} */ index) =>
            (index === at ? next : old)))} />
    </details>`)}
    ${!isReadOnly && html`<button type="button" onClick=${add}>${texts.addTo(name)}</button>`}<//>`;
};

/** @param {Record<string, string>} errors @param {string[]} path */
const hasError = (errors, path) => Object.keys(errors).some((one) => one === dotted(path)
  || one.startsWith(`${dotted(path)}.`));

/**
 * What is around many; nothing where the page has a heading for it.
 * @param {{ name: string, schema: any, isFlat?: boolean, children?: unknown }} props
 */
const Frame = ({ name, schema, isFlat, children }) => (isFlat ? children : html`<fieldset><legend>${name}</legend>
  ${schema.description && html`<p class="hint">${marked(schema.description)}</p>`}${children}</fieldset>`);

/** Groups with names. @param {NodeProps} props */
export const NamedField = ({ schema, value, onInput, path, isFlat }) => {
  const { Node, isReadOnly, errors } = useContext(Form);
  const [typed, setTyped] = useState("");
  const [made, setMade] = useState("");
  const name = path.at(-1) ?? "";
  const names = Object.keys(value ?? {});
  const add = () => {
    onInput({ ...value, [typed]: {} });
    setMade(typed);
    setTyped("");
  };
  return html`<${Frame} name=${name} schema=${schema} isFlat=${isFlat}>
    ${names.map((one) => html`<details key=${one} open=${one === made || names.length < 3
      || hasError(errors, [...path, one])}>
      <summary>${one}</summary>
      ${!isReadOnly && html`<p class="actions"><button type="button" class="danger"
        onClick=${() => onInput(withValue(value, [one], undefined))}>${texts.removeNamed(one)}</button></p>`}
      <${Node} schema=${schema.additionalProperties} value=${value[one]} path=${[...path, one]} isFlat
        onInput=${(/** @type {unknown} */ next) => onInput({ ...value, [one]: next })} />
    </details>`)}
    ${!isReadOnly && html`<div class="filters"><${Field} label=${texts.newName(name)} value=${typed} onInput=${setTyped}
      autocomplete="off" />
      <button type="button" disabled=${typed === "" || names.includes(typed)} onClick=${add}>
        ${texts.addTo(name)}</button></div>`}<//>`;
};
