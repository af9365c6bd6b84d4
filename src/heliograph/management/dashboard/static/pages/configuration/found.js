// @ts-check
/** The settings that a search finds, by the groups that they are in: those whose names have the text come first. */
import { html, useMemo } from "../../kernel/html.js";
import { Empty } from "../../parts/notice.js";
import { dotted, valueAt, withValue } from "../../parts/schema_form.js";
import { Form } from "../../parts/schema/form.js";
import { SchemaNode } from "../../parts/schema/node.js";
import { isInName, searched } from "../../parts/schema/search.js";
import texts from "../../texts/en/configuration.js";

/** @typedef {import("../../parts/schema/search.js").Hit} Hit */

/** Hits that follow each other and are in one group. @param {Hit[]} hits */
const grouped = (hits) => hits.reduce((made, hit) => {
  const group = dotted(hit.path.slice(0, -1));
  const last = made.at(-1);
  if (last?.group === group) last.hits.push(hit);
  else made.push({ group, hits: [hit] });
  return made;
}, /** @type {{ group: string, hits: Hit[] }[]} */ ([]));

/**
 * @param {{ form: import("../../parts/schema/form.js").FormContext, find: string, draft: unknown,
 *   setDraft: (draft: unknown) => void }} props
 */
export const Found = ({ form, find, draft, setDraft }) => {
  const hits = useMemo(() => searched(form.root, find, draft), [form.root, find, draft]);
  const parts = [
    { title: texts.inNames, some: hits.filter(isInName) },
    { title: texts.inDescriptions, some: hits.filter((hit) => !isInName(hit)) },
  ].filter(({ some }) => some.length > 0);
  if (parts.length === 0) return html`<${Empty}>${texts.nothingFound(find)}<//>`;
  return html`<${Form.Provider} value=${form}>${parts.map(({ title, some }) => html`
    <section class="schema-form" key=${title} aria-label=${title}><h2>${title}</h2>
      ${grouped(some).map(({ group, hits: those }) => html`
        <fieldset key=${`${group} ${dotted(those[0].path)}`}>${group && html`<legend>${group}</legend>`}
          ${those.map(({ schema, path, isRequired }) => html`<${SchemaNode} key=${dotted(path)} schema=${schema}
            path=${path} isRequired=${isRequired} value=${valueAt(draft, path)}
            onInput=${(/** @type {unknown} */ value) => setDraft(withValue(draft, path, value))} />`)}
        </fieldset>`)}
    </section>`)}<//>`;
};
