// @ts-check
/** One place of a form: the field, or the group of fields, that its schema asks for. */
import { html, useContext } from "../../kernel/html.js";
import { Form } from "./form.js";
import { kindOf, resolved } from "./kinds.js";
import { ChoiceField, JsonField, LinesField, ScalarField, SecretField, SwitchField } from "./leaves.js";
import { ChoicesField, GroupField, TextsField } from "./groups.js";
import { ListField, NamedField, VariantField } from "./many.js";
import { dotted } from "./values.js";

/** @typedef {import("./form.js").NodeProps} NodeProps */

const FIELDS = {
  variant: VariantField, group: GroupField, named: NamedField, texts: TextsField, choices: ChoicesField,
  list: ListField,
  lines: LinesField, choice: ChoiceField, switch: SwitchField, secret: SecretField, text: ScalarField, json: JsonField,
};

/** @param {NodeProps} props */
export const SchemaNode = (props) => {
  const form = useContext(Form);
  const own = resolved(props.schema, form.root);
  const from = form.inherited?.(props.path);
  const schema = from === undefined ? own : { ...own, default: from.plain ?? undefined, "x-inherited": from.path };
  const kind = kindOf(schema, form.root);
  if (kind === "none" || kind === "fixed") return null;
  const View = FIELDS[kind];
  const isChanged = form.isChanged?.(props.path) ?? false;
  return html`<div class=${`setting${isChanged ? " changed" : ""}`} data-path=${dotted(props.path)}>
    <${View} ...${props} schema=${schema} />
  </div>`;
};
