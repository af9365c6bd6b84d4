// @ts-check
/** The newest entries of the log of the node, and those that come. */
import { html, useEffect, useMemo, useRef, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { time } from "../../kernel/format.js";
import { useLive } from "../../kernel/live.js";
import { useResource } from "../../kernel/resource.js";
import { CheckField, Field } from "../../parts/field.js";
import { Empty, Loaded } from "../../parts/notice.js";
import texts from "../../texts/en/diagnose.js";

const LEVELS = ["debug", "info", "warning", "error", "critical"];
const SIGNS = /** @type {Record<string, string>} */ ({ warning: "warn", error: "bad", critical: "bad" });
const KEPT = 1000;

/** @param {{ node: string }} props */
export const LogTail = ({ node }) => {
  const [level, setLevel] = useState("info");
  const [search, setSearch] = useState("");
  const [follows, setFollows] = useState(true);
  const first = useResource(node, (signal) =>
    api.get(path("heliograph/nodes/{node}/log", node), { limit: 500 }, signal));
  const entries = useEntries(first, useLive(follows ? "log" : ""));
  const shown = useMemo(() => {
    const wanted = search.toLowerCase();
    return entries.filter((entry) => LEVELS.indexOf(entry.level) >= LEVELS.indexOf(level)
      && (!wanted || `${entry.logger} ${entry.text}`.toLowerCase().includes(wanted))).reverse();
  }, [entries, level, search]);
  return html`
    <div class="filters">
      <${Field} label=${texts.level} options=${LEVELS} value=${level} onInput=${setLevel} />
      <${Field} label=${texts.search} type="search" value=${search} onInput=${setSearch} />
      <${CheckField} label=${texts.follow} value=${follows} onInput=${setFollows} />
    </div>
    <${Loaded} of=${first}>${() => (shown.length === 0 ? html`<${Empty}>${texts.noEntries}<//>` : html`
      <ul class="log card" aria-label=${texts.tabs.log}>${shown.map((entry) =>
        html`<${Entry} key=${entry.number} entry=${entry} />`)}</ul>`)}<//>`;
};

/** @param {{ entry: Api.LogEntryShown }} props */
const Entry = ({ entry }) => html`
  <li>
    <time datetime=${entry.at}>${time(entry.at)}</time>
    <span><span class=${`badge ${SIGNS[entry.level] ?? ""}`}>${entry.level}</span></span>
    <span class="text"><span class="quiet">${entry.logger.replace(/^heliograph\./, "")}</span> ${entry.text}</span>
    ${entry.error && html`<pre>${entry.error}</pre>`}
  </li>`;

/**
 * What was loaded and what has come since, each once; what the stream had to leave out is loaded.
 * @param {import("../../kernel/resource.js").Resource<Api.LogEntryList>} first @param {Api.LogEvent | undefined} event
 * @returns {Api.LogEntryShown[]}
 */
const useEntries = (first, event) => {
  const kept = useRef(/** @type {Api.LogEntryShown[]} */ ([]));
  const [list, setList] = useState(/** @type {Api.LogEntryShown[]} */ ([]));
  const add = (/** @type {Api.LogEntryShown[]} */ more) => {
    const last = kept.current.at(-1)?.number ?? 0;
    const fresh = more.filter((entry) => entry.number > last);
    if (fresh.length === 0) return;
    kept.current = [...kept.current, ...fresh].slice(-KEPT);
    setList(kept.current);
  };
  useEffect(() => { if (first.data) add(first.data.data); }, [first.data]);
  useEffect(() => {
    if (!event || !first.data || event.entries.length === 0) return;
    const last = kept.current.at(-1)?.number ?? 0;
    if (event.entries[0].number > last + 1) first.reload();
    else add(event.entries);
  }, [event, first.data]);
  return list;
};
