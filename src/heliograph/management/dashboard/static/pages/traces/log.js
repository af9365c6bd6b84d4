// @ts-check
/** What a trace has recorded, part after part. */
import { html, useEffect, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { useAction } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { Empty, ErrorNote, PageHead } from "../../parts/notice.js";
import texts from "../../texts/en/traces.js";
import { downloadOf } from "./list.js";

const BYTES = 65_536;
const SHOWN_MAX = 1 << 20; // characters; what came before is in the download

/** @param {{ name: string }} props */
export const TraceLog = ({ name }) => {
  const [log, setLog] = useState({ text: "", position: 0, isCut: false, isEnd: false });
  const more = useAction(async () => {
    const { items, meta } = await api.get(path("trace/{name}/log", name), { position: log.position, bytes: BYTES });
    const text = log.text + items;
    const shown = text.length > SHOWN_MAX ? text.slice(text.indexOf("\n", text.length - SHOWN_MAX) + 1) : text;
    setLog({ text: shown, position: meta.position, isCut: log.isCut || shown !== text, isEnd: items === "" });
  });
  useEffect(() => { more.run(); }, []);
  return html`
    <p><a href=${link("traces")}>${texts.back}</a></p>
    <${PageHead} title=${texts.records(name)}>
      <a class="button" href=${downloadOf(name)} download=${`${name}.zip`}>${texts.download}</a>
    <//>
    <${ErrorNote} error=${more.error} again=${() => more.run()} />
    ${log.isCut && html`<p class="quiet">${texts.older}</p>`}
    ${log.text ? html`<pre tabindex="0" aria-label=${texts.records(name)}>${log.text}</pre>`
      : log.isEnd && html`<${Empty}>${texts.noRecords}<//>`}
    <p class="actions">
      <button type="button" disabled=${more.isRunning} onClick=${() => more.run()}>${texts.more}</button>
      ${log.isEnd && log.text && html`<span class="quiet" role="status">${texts.noMore}</span>`}
    </p>`;
};
