// @ts-check
/** Groups of which there are many: named ones, lists in their order, and one of several kinds. */
import { html, useContext, useState } from "../../kernel/html.js";
import { recordOf } from "../../kernel/own.js";
import { Field } from "../field.js";
import { GroupFields } from "./groups.js";
import { marked } from "../marked.js";
import { Form } from "./form.js";
import { resolved, tagsOf, valuesOf, variantOf } from "./kinds.js";
import { dotted, listOf, withValue } from "./values.js";
import texts from "../../texts/en/schema_form.js";

/** @typedef {import("./form.js").NodeProps} NodeProps */

/** One of several kinds, which its tags tell apart. @param {NodeProps} props */
export const VariantField = (props) => {
  const { schema, value, onInput, path } = props;
  const { isReadOnly, errors } = useContext(Form);
  const at = variantOf(schema, value);
  const shapes = schema.oneOf ?? [];
  const options = shapes.map((one, index) => ({ value: String(index), label: one.title ?? "" }));
  const choose = (/** @type {string} */ index) => index !== ""
    && onInput(Object.fromEntries(tagsOf(shapes[Number(index)])));
  return html`
    <${Field} label=${texts.kind} options=${at < 0 ? [{ value: "", label: texts.choose }, ...options] : options}
      value=${at < 0 ? "" : String(at)}
      onInput=${choose} disabled=${isReadOnly} error=${errors[dotted(path)]} />
    ${at >= 0 && html`<${GroupFields} ...${props} schema=${shapes[at]} />`}`;
};

/** @param {import("./kinds.js").Schema} schema @param {unknown} value */
const titleOf = (schema, value) => {
  const { name, topic, ...others } = recordOf(value);
  return schema.oneOf?.[variantOf(schema, value)]?.title || name || topic
    || Object.values(others).find((one) => typeof one === "string") || "";
};

/** Groups in their order. @param {NodeProps} props */
export const ListField = ({ schema, value, onInput, path, isFlat }) => {
  const { Node, root, isReadOnly, errors, note } = useContext(Form);
  const items = resolved(schema.items, root);
  const [made, setMade] = useState(-1);
  const list = listOf(value);
  const name = path.at(-1) ?? "";
  const move = (/** @type {number} */ from, /** @type {number} */ to) => {
    const next = list.filter((_, at) => at !== from);
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
    ${list.map((one, at) =>
      html`<details key=${at} open=${at === made || hasError(errors, [...path, String(at + 1)])}>
      <summary>${at + 1}. ${titleOf(items, one)}</summary>
      ${!isReadOnly && html`<p class="actions">
        <button type="button" disabled=${at === 0} onClick=${() => move(at, at - 1)}>${texts.up}</button>
        <button type="button" disabled=${at === list.length - 1} onClick=${() => move(at, at + 1)}>
          ${texts.down}</button>
        <button type="button" class="danger" onClick=${() =>
          onInput(list.filter((_, index) => index !== at))}>
          ${texts.removeNamed(`${name} ${at + 1}`)}</button></p>`}
      <${Node} schema=${items} value=${one} path=${[...path, String(at + 1)]} isFlat
        onInput=${(/** @type {unknown} */ next) =>
          onInput(list.map((old, index) => (index === at ? next : old)))} />
    </details>`)}
    ${!isReadOnly && html`<button type="button" onClick=${add}>${texts.addTo(name)}</button>`}<//>`;
};

/** @param {Record<string, string>} errors @param {string[]} path */
const hasError = (errors, path) => Object.keys(errors).some((one) => one === dotted(path)
  || one.startsWith(`${dotted(path)}.`));

/**
 * What is around many; nothing where the page has a heading for it.
 * @param {{ name: string, schema: import("./kinds.js").Schema, isFlat?: boolean, children?: unknown }} props
 */
const Frame = ({ name, schema, isFlat, children }) => (isFlat ? children : html`<fieldset><legend>${name}</legend>
  ${schema.description && html`<p class="hint">${marked(schema.description)}</p>`}${children}</fieldset>`);

/** Groups with names. @param {NodeProps} props */
export const NamedField = ({ schema, value, onInput, path, isFlat }) => {
  const { Node, root, isReadOnly, errors } = useContext(Form);
  const [typed, setTyped] = useState("");
  const [made, setMade] = useState("");
  const name = path.at(-1) ?? "";
  const held = recordOf(value);
  const names = Object.keys(held);
  const add = () => {
    onInput({ ...held, [typed]: {} });
    setMade(typed);
    setTyped("");
  };
  return html`<${Frame} name=${name} schema=${schema} isFlat=${isFlat}>
    ${names.map((one) => html`<details key=${one} open=${one === made || names.length < 3
      || hasError(errors, [...path, one])}>
      <summary>${one}</summary>
      ${!isReadOnly && html`<p class="actions"><button type="button" class="danger"
        onClick=${() => onInput(withValue(value, [one], undefined))}>${texts.removeNamed(one)}</button></p>`}
      <${Node} schema=${valuesOf(schema, root)} value=${held[one]} path=${[...path, one]} isFlat
        onInput=${(/** @type {unknown} */ next) => onInput({ ...held, [one]: next })} />
    </details>`)}
    ${!isReadOnly && html`<div class="filters"><${Field} label=${texts.newName(name)} value=${typed} onInput=${setTyped}
      autocomplete="off" />
      <button type="button" disabled=${typed === "" || names.includes(typed)} onClick=${add}>
        ${texts.addTo(name)}</button></div>`}<//>`;
};
