// @ts-check
/** All schemas of the registry, and the registries of other systems. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { cut } from "../kernel/format.js";
import { useResource } from "../kernel/resource.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { ConfirmDialog, useDialog } from "../parts/dialog.js";
import { Loaded, PageHead } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import { Registries } from "./schema/registries.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/schemas.js";

export default function SchemasPage() {
  const all = useResource("schemas", (signal) => api.get("schema_registry", {}, signal));
  const dialog = useDialog(all);
  const mayChange = may("schemas:write");
  /** @type {import("../parts/table.js").Column<Api.SchemaObject>[]} */
  const columns = [...COLUMNS, {
    key: "more", title: texts.more, kind: "actions", isShown: mayChange, show: (row) => html`
    <button type="button" class="danger" aria-label=${texts.removeAction(row.name)}
      onClick=${() => dialog.show("delete", row)}>${texts.remove}</button>`,
  }];
  return html`
    <${PageHead} title=${texts.title}>
      <button type="button" onClick=${all.reload}>${everywhere.refresh}</button>
      ${mayChange && html`<a class="button main" href=${link("schema")}>${texts.add}</a>`}
    <//>
    <${Loaded} of=${all}>${(/** @type {Api.SchemaObject[]} */ rows) => html`
      <${Table} caption=${texts.title} columns=${columns} rows=${rows}
        rowKey="name"
        empty=${texts.none} isBusy=${all.isLoading} />`}<//>
    <${Registries} />
    ${dialog.kind === "delete" && html`<${ConfirmDialog} title=${texts.removeTitle}
      text=${texts.removeText(dialog.about.name)}
      action=${texts.removeAction(dialog.about.name)}
      act=${() => api.del(path("schema_registry/{name}", dialog.about.name))}
        onClose=${dialog.close(texts.removed(dialog.about.name))} />`}`;
}

/** @type {import("../parts/table.js").Column<Api.SchemaObject>[]} */
const COLUMNS = [
  { key: "name", title: texts.name, kind: "code", isHead: true, show: ({ name }) =>
    html`<a href=${link("schema", name)}>${name}</a>` },
  { key: "type", title: texts.type, show: ({ type }) => texts.types[type] ?? type },
  { key: "description", title: texts.description, show: ({ description }) => cut(description ?? "", 160) },
];
