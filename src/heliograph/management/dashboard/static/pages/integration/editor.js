// @ts-check
/** One connector, action or source: how it is, and its form; a new action is made in steps. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useLive } from "../../kernel/live.js";
import { own } from "../../kernel/own.js";
import { useResource } from "../../kernel/resource.js";
import { link, navigate } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useDialog } from "../../parts/dialog.js";
import { Loaded, PageHead } from "../../parts/notice.js";
import { loadSchema } from "../../parts/schema_form.js";
import { Metrics } from "./metrics.js";
import { idOf, pageOf, RemoveDialog, rowsOf, State } from "./list.js";
import { NewAction } from "./new_action.js";
import { Settings } from "./settings.js";
import texts from "../../texts/en/integration.js";

/** @typedef {import("./settings.js").Found} Found */

/** @param {{ kind: import("./list.js").Kind, id: string, type: string }} props */
export default function IntegrationEditor({ kind, id, type }) {
  const words = texts[kind];
  const found = useResource(id, async (signal) => {
    const [schema, row] = await Promise.all([loadSchema(), id ? api.get(path(`${kind}/{id}`, id), {}, signal) : null]);
    const connectors = kind !== "connectors" && may("connectors:read") ? await api.get("connectors", {}, signal) : [];
    return { schema, row, connectors };
  });
  const live = own(rowsOf(useLive(id ? kind : "")), id);
  const row = found.data?.row;
  const dialog = useDialog({ data: row ? [row] : [], reload: () => navigate(link(kind)) });
  const saved = (/** @type {Api.IntegrationObject} */ made) => (id ? found.reload()
    : navigate(link(pageOf(kind), idOf(made))));
  return html`
    <${PageHead} title=${id ? words.one(id) : words.add}>
      ${row && may(`${kind}:write`) && html`
        <button type="button" class="danger" onClick=${() => dialog.show("delete", row)}>
          ${texts.remove}</button>`}
      <a class="button" href=${link(kind)}>${words.all}</a>
    <//>
    <${Loaded} of=${found}>${(/** @type {Found} */ data) => html`
      ${row && html`<${State} row=${row} live=${live} />`}
      ${row && kind !== "connectors" && html`<${Metrics} kind=${kind} id=${id} rules=${row.rules}
        metrics=${live?.metrics} />`}
      ${row && kind === "sources" && html`<p>${texts.sources.readBy} <code>FROM "$sources/${id}"</code></p>`}
      ${kind === "actions" && !id && may("actions:write") ? html`<${NewAction} ...${data} first=${type} />`
        : html`<${Settings} key=${id} kind=${kind} ...${data} first=${type} onSaved=${saved} />`}`}<//>
    ${dialog.kind === "delete" && html`<${RemoveDialog} kind=${kind} row=${dialog.about}
      onClose=${dialog.close(texts.removed(id))} />`}`;
}
