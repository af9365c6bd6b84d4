// @ts-check
/** One connector, or one action: a form of its type, tested before it is saved. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useLive } from "../../kernel/live.js";
import { own, recordOf } from "../../kernel/own.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useSeen } from "../../parts/changed.js";
import { useDialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, Loaded, PageHead, tell } from "../../parts/notice.js";
import { loadSchema, problemsOf, schemaAt, SchemaForm } from "../../parts/schema_form.js";
import { ActionMetrics } from "./metrics.js";
import { idOf, pageOf, RemoveDialog, rowsOf, State } from "./list.js";
import texts from "../../texts/en/integration.js";

const ONLY_READ = ["type", "name", "status", "status_reason", "node_status", "actions", "sources", "rules",
  "created_at", "last_modified_at"];

/** @param {Row} row */
const settingsOf = (row) => Object.fromEntries(Object.entries(row).filter(([name]) => !ONLY_READ.includes(name)));

/** @param {{ kind: import("./list.js").Kind, id: string, type: string }} props */
export default function IntegrationEditor({ kind, id, type }) {
  const words = texts[kind];
  const found = useResource(id, async (signal) => {
    const [schema, row] = await Promise.all([loadSchema(), id ? api.get(path(`${kind}/{id}`, id), {}, signal) : null]);
    const connectors = kind === "actions" && may("connectors:read") ? await api.get("connectors", {}, signal) : [];
    return { schema, row, connectors };
  });
  const live = own(rowsOf(useLive(id ? kind : "")), id);
  const row = found.data?.row;
  const dialog = useDialog({ data: row ? [row] : [], reload: () => navigate(link(kind)) });
  return html`
    <${PageHead} title=${id ? words.one(id) : words.add}>
      ${row && may(`${kind}:write`) && html`
        <button type="button" class="danger" onClick=${() => dialog.show("delete", row)}>
          ${texts.remove}</button>`}
      <a class="button" href=${link(kind)}>${words.all}</a>
    <//>
    <${Loaded} of=${found}>${(/** @type {Found} */ data) => html`
      ${row && html`<${State} row=${row} live=${live} />`}
      ${row && kind === "actions" && html`<${ActionMetrics} id=${id} rules=${row.rules} metrics=${live?.metrics} />`}
      <${Settings} key=${id} kind=${kind} ...${data} first=${type} onSaved=${found.reload} />`}<//>
    ${dialog.kind === "delete" && html`<${RemoveDialog} kind=${kind} row=${dialog.about}
      onClose=${dialog.close(texts.removed(id))} />`}`;
}

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
 * @typedef {Api.IntegrationObject} Row
 * @typedef {{ schema: Schema, row: Row | null, connectors: Row[] }} Found
 * @param {Found & { kind: import("./list.js").Kind, first: string, onSaved: () => void }} props
 */
const Settings = ({ kind, schema, row, connectors, first, onSaved }) => {
  const types = Object.keys(schemaAt(schema, ["connectors"])?.properties ?? {}); // actions have a setting beside theirs
  const [type, setType] = useState(row?.type ?? (types.includes(first) ? first : types[0]));
  const [name, setName] = useState(row?.name ?? "");
  const [draft, setDraft] = useState(/** @type {Record<string, unknown>} */ (row ? settingsOf(row) : {}));
  const [isTested, setTested] = useState(false);
  const seen = useSeen(row && settingsOf(row));
  const save = useAction(async () => {
    const where = path(`${kind}/{id}`, row ? idOf(row) : "");
    if (row) seen.check(settingsOf(await api.get(where)));
    const saved = row ? await api.put(where, draft) : await api.post(kind, { type, name, ...draft });
    seen.saved(settingsOf(saved));
    tell(texts.saved(idOf(saved)));
    if (row) onSaved();
    else navigate(link(pageOf(kind), idOf(saved)));
  });
  const test = useAction(async () => {
    setTested(false);
    await api.post(`${kind}_probe`, { type, name: name || "test", ...draft });
    setTested(true);
  });
  const shown = save.error ?? test.error;
  const { fields, rest } = problemsOf(shown, [kind, type, "*"]);
  const change = (/** @type {unknown} */ value) => {
    setDraft(recordOf(value));
    setTested(false);
  };
  const other = (/** @type {string} */ chosen) => {
    setType(chosen);
    setDraft({});
    setTested(false);
  };
  const submit = submitting(() => {
    test.clear();
    save.run();
  });
  const isReadOnly = !may(`${kind}:write`);
  const { connector: _, resource_opts, ...properties } = withMeaning(schemaAt(schema, [kind, type, "x"])
    ?? {}).properties ?? {};
  return html`
    <form class="card" onSubmit=${submit}>
      ${shown && (rest || shown.status !== 400) && html`<${ErrorNote}
        error=${rest ? { ...shown, message: rest } : shown} />`}
      ${!row && html`<div class="beside">
        <${Field} label=${texts.type} value=${type} options=${types} onInput=${other} />
        <${Field} label=${texts.name} value=${name} onInput=${setName} hint=${texts.nameHint} isRequired
          autocomplete="off" />
      </div>`}
      ${kind === "actions" && html`<${ConnectorField} type=${type} value=${draft.connector ?? ""}
        connectors=${connectors}
        error=${fields.connector} isReadOnly=${isReadOnly} onInput=${(/** @type {string} */ connector) =>
          change({ ...draft, connector })} />`}
      ${[properties, resource_opts && { resource_opts }].filter(Boolean).map((some, at) => {
        const form = html`<${SchemaForm} key=${type} schema=${{ type: "object", properties: some }} root=${schema}
          value=${draft} onInput=${change}
          errors=${fields} isReadOnly=${isReadOnly} />`;
        return at ? html`<details open=${Object.keys(fields).some((name) => name.startsWith("resource_opts"))}><summary>
          ${texts.watching}</summary>${form}</details>` : form;
      })}
      <p role="status">${test.isRunning ? texts.testing : isTested
        && html`<span class="badge good">${texts.tested}</span>`}</p>
      ${!isReadOnly && html`<div class="actions">
        <button type="submit" class="main" disabled=${save.isRunning}>${row ? texts.save : texts[kind].make}</button>
        <button type="button" disabled=${test.isRunning} onClick=${() => { save.clear(); test.run(); }}>
          ${texts.test}</button>
      </div>`}
    </form>`;
};

/**
 * @param {{ type: string, value: string, connectors: Row[], error?: string, isReadOnly: boolean,
 *   onInput: (name: string) => void }} props
 */
const ConnectorField = ({ type, value, connectors, error, isReadOnly, onInput }) => {
  const names = connectors.filter((one) => one.type === type).map(({ name }) => name);
  const options = [{ value: "", label: texts.choose }, ...[...new Set(value ? [...names, value] : names)].map((name) =>
    ({ value: name, label: name }))];
  const hint = names.length ? texts.connectorHint
    : html`${texts.noConnector(type)} ${may("connectors:write")
      && html`<a href=${link("connector", { type })}>${texts.addConnector}</a>`}`;
  return html`<${Field} label=${texts.connector} value=${value} options=${options} hint=${hint} error=${error}
    disabled=${isReadOnly} onInput=${onInput} isRequired />`;
};
