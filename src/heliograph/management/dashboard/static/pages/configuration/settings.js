// @ts-check
/** All settings as forms, section by section or as a search finds them; what is changed is kept until it is applied. */
import { html, useEffect, useMemo, useRef, useState } from "../../kernel/html.js";
import { own, recordOf } from "../../kernel/own.js";
import { link, replaceQuery } from "../../kernel/router.js";
import { may, session } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { marked } from "../../parts/marked.js";
import { Empty } from "../../parts/notice.js";
import { SchemaNode } from "../../parts/schema/node.js";
import { SchemaForm, differences, dotted, withChanges, withValue } from "../../parts/schema_form.js";
import { ApplyDialog } from "./apply.js";
import { Found } from "./found.js";
import texts from "../../texts/en/configuration.js";

/** @typedef {import("./page.js").Held} Held */

const ABOVE = /^(node|environment|command line)/; // layers that hide what is set here
const SEARCH_MIN = 2;

/** What the user changed and has not applied: it outlasts a look at other pages, and ends with the login. */
let kept = /** @type {import("../../parts/schema/values.js").Change[]} */ ([]);
session.subscribe(() => { if (session.get().state === "out") kept = []; });

/** The settings as the user has changed them; the changes stay when others are loaded. @param {unknown} tree */
const useDraft = (tree) => {
  const [draft, setDraft] = useState(() => withChanges(tree, kept));
  const base = useRef(tree);
  useEffect(() => {
    if (base.current === tree) return;
    const changes = differences(base.current, draft);
    base.current = tree;
    setDraft(withChanges(tree, changes));
  }, [tree]);
  const changes = differences(base.current, draft);
  kept = changes;
  return { draft, setDraft, changes, drop: () => setDraft(base.current) };
};

/** @param {{ held: Held, section: string, query: Record<string, string>, reload: () => void }} props */
export const SettingsTab = ({ held, section, query, reload }) => {
  const { draft, setDraft, changes, drop } = useDraft(held.tree);
  const [errors, setErrors] = useState(/** @type {Record<string, string>} */ ({}));
  const [isOpen, setOpen] = useState(false);
  const find = query.find ?? "";
  const isSearch = find.trim().length >= SEARCH_MIN;
  const changed = changes.map(({ path }) => dotted(path)).join("\n");
  const isChanged = useMemo(() => {
    const paths = new Set(changed.split("\n"));
    return (/** @type {string[]} */ path) => paths.has(dotted(path));
  }, [changed]);
  const note = useMemo(() => (/** @type {string[]} */ path) => html`<${Origin} row=${held.rows.get(dotted(path))} />`,
    [held.rows]);
  const inherited = useMemo(() => (/** @type {string[]} */ [root, , ...rest]) => (root === "zones"
    ? held.rows.get(dotted(rest)) : undefined), [held.rows]);
  const canWrite = may("config:write");
  const form = { Node: SchemaNode, root: held.schema, errors, note, inherited, isChanged, isReadOnly: !canWrite };
  return html`
    <${Field} label=${texts.search} hint=${texts.searchHint} type="search" value=${find}
      onInput=${(/** @type {string} */ text) => replaceQuery({ find: text })} />
    <div class="settings">
      <${Sections} names=${Object.keys(held.schema.properties ?? {})} section=${isSearch ? "" : section}
        changed=${changes.map(({ path }) => path[0])} />
      <div class="card">${isSearch
        ? html`<${Found} form=${form} find=${find} draft=${draft} setDraft=${setDraft} />`
        : html`<${Section} key=${section} form=${form} section=${section} draft=${draft} setDraft=${setDraft} />`}</div>
    </div>
    ${changes.length > 0 && html`<section class="apply-bar" aria-label=${texts.changed(changes.length)}>
      <span>${texts.changed(changes.length)}</span>
      <button type="button" onClick=${() => { drop(); setErrors({}); }}>${texts.discard}</button>
      <button type="button" class="main" onClick=${() => setOpen(true)}>${texts.review}</button></section>`}
    ${isOpen && html`<${ApplyDialog} changes=${changes} state=${held.state} reload=${reload} onErrors=${setErrors}
      onApplied=${drop}
      onLeaveOut=${(/** @type {string[]} */ paths) => setDraft(withChanges(held.tree,
        changes.filter(({ path }) => !paths.includes(dotted(path)))))}
      onClose=${() => setOpen(false)} />`}`;
};

/**
 * @param {{ form: import("../../parts/schema/form.js").FormContext, section: string, draft: unknown,
 *   setDraft: (draft: unknown) => void }} props
 */
const Section = ({ form, section, draft, setDraft }) => {
  const schema = own(form.root.properties, section);
  if (schema === undefined) return html`<${Empty}>${texts.noSection(section)}<//>`;
  return html`<h2>${section}</h2><p class="quiet">${marked(schema.description)}</p>
    <${SchemaForm} ...${form} schema=${schema} value=${own(recordOf(draft), section)} path=${[section]}
      onInput=${(/** @type {unknown} */ value) => setDraft(withValue(draft, [section], value))} />`;
};

/** @param {{ names: string[], section: string, changed: string[] }} props */
const Sections = ({ names, section, changed }) => html`
  <nav class="sections" aria-label=${texts.sections}><ul>${names.map((name) => html`
    <li key=${name}><a href=${link("configuration", name)} aria-current=${name === section ? "page" : undefined}>${name}
      ${changed.includes(name) && html`<span class="badge warn">
        ${changed.filter((one) => one === name).length}</span>`}</a></li>`)}</ul></nav>`;

/**
 * Where a value comes from, and how a change of it takes effect.
 * @param {{ row: Api.SettingShown | undefined }} props
 */
const Origin = ({ row }) => row && html`<span class="origin">
  <span class=${`badge ${row.how === "restart" ? "warn" : "good"}`}>
    ${texts.how[/** @type {keyof typeof texts.how} */ (row.how)]}</span>
  ${" "}${row.inherited_from ? texts.inheritedFrom(row.inherited_from, row.origin)
    : row.origin === "defaults" ? texts.defaults : ABOVE.test(row.origin)
    ? html`<strong>${texts.fixedBy(row.origin)}</strong>` : texts.setBy(row.origin)}</span>`;
