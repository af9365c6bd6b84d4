// @ts-check
/** Asks where the late rows of a query are to go: a table or sink of their own, not the sink of the query. */
import { html } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { FormDialog } from "../../parts/form_dialog.js";
import { tell } from "../../parts/notice.js";
import pipeline from "../../texts/en/pipeline.js";

const texts = pipeline.lateRows;

/**
 * @typedef {import("../../parts/form_dialog.js").Values} Values
 * @param {{ query: string, views: string[], onClose: (isDone: boolean) => void }} props
 */
export const LateReplay = ({ query, views, onClose }) => {
  const act = async (/** @type {Values} */ { view, kind, name }) => tell(texts.done(
    await api.post(path("heliograph/pipeline/late_rows/{query}/replay", query), { view, [String(kind)]: name })));
  const fields = [
    { name: "kind", label: texts.to, options: Object.entries(texts.kinds).map(([value, label]) => ({ value, label })) },
    { name: "name", label: texts.name, hint: texts.nameHint, isRequired: true },
    ...(views.length > 1 ? [{ name: "view", label: texts.view, hint: texts.viewHint, options: views }] : []),
  ];
  return html`
    <${FormDialog} title=${texts.replayTitle(query)} intro=${texts.replayText} fields=${fields} action=${texts.replay}
      initial=${{ view: views[0], kind: "table", name: `${query}_late` }} act=${act} onClose=${onClose} />`;
};
