// @ts-check
/** The settings of a connector or an action by the schema of its type, and the connector of an action. */
import { html } from "../../kernel/html.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { schemaAt, SchemaForm } from "../../parts/schema_form.js";
import texts from "../../texts/en/integration.js";

/**
 * A schema without the settings that are taken for other products and change nothing.
 * @typedef {import("../../parts/schema/kinds.js").Schema} Schema
 * @param {Schema} schema
 * @returns {Schema}
 */
const withMeaning = (schema) => (schema.properties ? { ...schema,
  properties: Object.fromEntries(Object.entries(schema.properties)
  .filter(([, one]) => !one.description?.startsWith(texts.meaningless)).map(([name, one]) =>
    [name, withMeaning(one)])) } : schema);

/**
 * The types that there are; actions have a setting beside theirs, and the types of connectors.
 * @param {Schema} schema @param {import("./list.js").Kind} kind
 */
export const typesOf = (schema, kind) => Object.keys(schemaAt(schema, [kind === "actions" ? "connectors" : kind])
  ?.properties ?? {});

/** Whether a type has connectors. @param {Schema} schema @param {import("./list.js").Kind} kind @param {string} type */
export const hasConnector = (schema, kind, type) => "connector" in (schemaAt(schema, [kind, type, "x"])
  ?.properties ?? {});

/** The settings of a type, without its connector. @param {Schema} schema @param {string} kind @param {string} type */
export const propertiesOf = (schema, kind, type) => {
  const { connector: _, ...properties } = withMeaning(schemaAt(schema, [kind, type, "x"]) ?? {}).properties ?? {};
  return properties;
};

/**
 * What is sent of a draft: with its parameters where the type needs some, so that each that is missing is named.
 * @param {Schema} schema @param {import("./list.js").Kind} kind @param {string} type
 * @param {Record<string, unknown>} draft
 */
export const sentOf = (schema, kind, type, draft) =>
  (schemaAt(schema, [kind, type, "x"])?.required?.includes("parameters") ? { parameters: {}, ...draft } : draft);

/**
 * @param {{ schema: Schema, kind: import("./list.js").Kind, type: string, value: Record<string, unknown>,
 *   onInput: (value: unknown) => void, errors: Record<string, string>, isReadOnly?: boolean }} props
 */
export const SettingsFields = ({ schema, kind, type, value, onInput, errors, isReadOnly = false }) => {
  const { resource_opts, ...properties } = propertiesOf(schema, kind, type);
  return [properties, resource_opts && { resource_opts }].filter(Boolean).map((some, at) => {
    const form = html`<${SchemaForm} key=${`${type} ${at}`} schema=${{ type: "object", properties: some }}
      root=${schema} value=${value} onInput=${onInput} errors=${errors} isReadOnly=${isReadOnly} />`;
    return at ? html`<details open=${Object.keys(errors).some((name) => name.startsWith("resource_opts"))}><summary>
      ${texts.watching}</summary>${form}</details>` : form;
  });
};

/**
 * @param {{ type: string, value: string, connectors: Api.IntegrationObject[], error?: string, isReadOnly: boolean,
 *   onInput: (name: string) => void }} props
 */
export const ConnectorField = ({ type, value, connectors, error, isReadOnly, onInput }) => {
  const names = connectors.filter((one) => one.type === type).map(({ name }) => name);
  const options = [{ value: "", label: texts.choose }, ...[...new Set(value ? [...names, value] : names)].map((name) =>
    ({ value: name, label: name }))];
  const hint = names.length ? texts.connectorHint
    : html`${texts.noConnector(type)} ${may("connectors:write")
      && html`<a href=${link("connector", { type })}>${texts.addConnector}</a>`}`;
  return html`<${Field} label=${texts.connector} value=${value} options=${options} hint=${hint} error=${error}
    disabled=${isReadOnly} onInput=${onInput} isRequired />`;
};
