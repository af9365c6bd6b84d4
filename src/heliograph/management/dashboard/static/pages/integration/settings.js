// @ts-check
/** The form of one connector, action or source: tested before it is saved. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { recordOf } from "../../kernel/own.js";
import { useAction } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { useSeen } from "../../parts/changed.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, tell } from "../../parts/notice.js";
import { namedProblems } from "../../parts/schema_form.js";
import { ConnectorField, hasConnector, sentOf, SettingsFields, typesOf } from "./fields.js";
import { idOf } from "./list.js";
import texts from "../../texts/en/integration.js";

const ONLY_READ = ["type", "name", "status", "status_reason", "node_status", "actions", "sources", "rules",
  "created_at", "last_modified_at"];

/** @param {Row} row */
const settingsOf = (row) => Object.fromEntries(Object.entries(row).filter(([name]) => !ONLY_READ.includes(name)));

/**
 * @typedef {Api.IntegrationObject} Row
 * @typedef {{ schema: import("../../parts/schema/kinds.js").Schema, row: Row | null, connectors: Row[] }} Found
 * @param {Found & { kind: import("./list.js").Kind, first: string, isOfType?: boolean,
 *   onSaved: (saved: Row) => void }} props
 *   `isOfType`: whether a new one is of the type `first` and no other.
 */
export const Settings = ({ kind, schema, row, connectors, first, isOfType = false, onSaved }) => {
  const types = typesOf(schema, kind);
  const [type, setType] = useState(row?.type ?? (types.includes(first) ? first : types[0]));
  const [name, setName] = useState(row?.name ?? "");
  const [draft, setDraft] = useState(/** @type {Record<string, unknown>} */ (row ? settingsOf(row) : {}));
  const [isTested, setTested] = useState(false);
  const sent = sentOf(schema, kind, type, draft);
  const seen = useSeen(row && settingsOf(row));
  const save = useAction(async () => {
    const where = path(`${kind}/{id}`, row ? idOf(row) : "");
    if (row) seen.check(settingsOf(await api.get(where)));
    const saved = row ? await api.put(where, sent) : await api.post(kind, { type, name, ...sent });
    seen.saved(settingsOf(saved));
    tell(texts.saved(idOf(saved)));
    onSaved(saved);
  });
  const test = useAction(async () => {
    setTested(false);
    await api.post(`${kind}_probe`, { type, name: name || "test", ...sent });
    setTested(true);
  });
  const shown = save.error ?? test.error;
  const { fields, rest } = namedProblems(shown, [kind, type], name);
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
  return html`
    <form class="card" onSubmit=${submit}>
      ${shown && (rest || shown.status !== 400) && html`<${ErrorNote}
        error=${rest ? { ...shown, message: rest } : shown} />`}
      ${!row && html`<div class="beside">
        ${!isOfType && html`<${Field} label=${texts.type} value=${type} options=${types} onInput=${other} />`}
        <${Field} label=${texts.name} value=${name} onInput=${setName} hint=${texts.nameHint} error=${fields.name}
          isRequired autocomplete="off" />
      </div>`}
      ${hasConnector(schema, kind, type) && html`<${ConnectorField} type=${type} value=${draft.connector ?? ""}
        connectors=${connectors}
        error=${fields.connector} isReadOnly=${isReadOnly} onInput=${(/** @type {string} */ connector) =>
          change({ ...draft, connector })} />`}
      <${SettingsFields} kind=${kind} schema=${schema} type=${type} value=${draft} onInput=${change} errors=${fields}
        isReadOnly=${isReadOnly} />
      <p role="status">${test.isRunning ? texts.testing : isTested
        && html`<span class="badge good">${texts.tested}</span>`}</p>
      ${!isReadOnly && html`<div class="actions">
        <button type="submit" class="main" disabled=${save.isRunning}>${row ? texts.save : texts[kind].make}</button>
        <button type="button" disabled=${test.isRunning} onClick=${() => { save.clear(); test.run(); }}>
          ${texts.test}</button>
      </div>`}
    </form>`;
};
