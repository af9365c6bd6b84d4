// @ts-check
/** The way of data: from what rules read over rules, actions and connectors to targets, as it is now. */
import { html } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { useLive } from "../kernel/live.js";
import { useLiveRows } from "../kernel/live_rows.js";
import { useResource } from "../kernel/resource.js";
import { link, replaceQuery } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { CheckField, SearchField } from "../parts/field.js";
import { Empty, Loaded, PageHead } from "../parts/notice.js";
import { graphOf } from "./data_flow/graph.js";
import { Picture, SIGNS } from "./data_flow/picture.js";
import { failingCount, folded, narrowed } from "./data_flow/ways.js";
import { idOf, rowsOf } from "./integration/list.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/data_flow.js";

const LIMIT = 1000;

/** @typedef {import("./data_flow/graph.js").Found} Found */

/** @param {AbortSignal} signal @returns {Promise<Api.RuleObject[]>} */
const allRules = async (signal) => {
  /** @type {Api.RuleObject[]} */
  const found = [];
  for (let page = 1, hasMore = true; hasMore; page += 1) {
    const { data, meta } = await api.get("rules", { page, limit: LIMIT }, signal);
    found.push(...data);
    hasMore = meta.hasnext;
  }
  return found;
};

/** @param {AbortSignal} signal @returns {Promise<Found>} */
const load = async (signal) => {
  const [rules, actions, connectors, sources] = await Promise.all([
    allRules(signal),
    may("actions:read") ? api.get("actions", {}, signal) : [],
    may("connectors:read") ? api.get("connectors", {}, signal) : [],
    may("sources:read") ? api.get("sources", {}, signal) : [],
  ]);
  return { rules, actions, connectors, sources };
};

const byId = (/** @type {Api.IntegrationObject} */ row) => ({ id: idOf(row), enable: row.enable });

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function DataFlowPage({ route }) {
  const { text = "", failing = "", open = "" } = route.query;
  const found = useResource("flow", load);
  const rules = useLiveRows(useLive("rules")?.rules, found.data?.rules, ({ id, enable }) => ({ id, enable }),
    found.reload);
  const actions = useLiveRows(rowsOf(useLive(may("actions:read") ? "actions" : "")), found.data?.actions, byId,
    found.reload);
  const connectors = useLiveRows(rowsOf(useLive(may("connectors:read") ? "connectors" : "")), found.data?.connectors,
    byId, found.reload);
  const sources = useLiveRows(rowsOf(useLive(may("sources:read") ? "sources" : "")), found.data?.sources, byId,
    found.reload);
  const live = { rules: rules.now, actions: actions.now, connectors: connectors.now, sources: sources.now };
  const set = (/** @type {Record<string, unknown>} */ more) => replaceQuery({ text, failing, open, ...more });
  return html`
    <${PageHead} title=${texts.title}>
      <button type="button" onClick=${found.reload}>${everywhere.refresh}</button>
      ${may("actions:write") && html`<a class="button main" href=${link("action")}>${texts.newAction}</a>`}
    <//>
    <p class="quiet">${texts.hint}</p>
    <div class="filters" role="search">
      <${SearchField} label=${texts.search} hint=${texts.searchHint} value=${text}
        onSearch=${(/** @type {string} */ typed) => set({ text: typed, open: "" })} />
      <${CheckField} label=${texts.failing} value=${failing !== ""}
        onInput=${(/** @type {boolean} */ isOn) => set({ failing: isOn ? "1" : "", open: "" })} />
      ${open && html`<button type="button" onClick=${() => set({ open: "" })}>${texts.fold}</button>`}
    </div>
    <${Loaded} of=${found}>${(/** @type {Found} */ data) => {
      const all = graphOf(data, live);
      const some = narrowed(all, text, failing !== "");
      if (some.nodes.size === 0) return html`<${Empty}>${all.nodes.size ? texts.noneFound : texts.none}<//>`;
      return html`
        <p>${texts.count(data.rules.length, failingCount(all))}</p>
        <${Picture} graph=${folded(some, open, { text, failing })} />
        <${Legend} />`;
    }}<//>`;
}

const Legend = () => html`
  <ul class="flow-legend">
    ${/** @type {const} */ (["good", "warn", "bad", "off"]).map((health) => html`
      <li key=${health}><span class=${`flow-key ${health}`} aria-hidden="true">${SIGNS[health]}</span>
        ${" "}${texts.legend[health]}</li>`)}
    <li><span class="flow-key" aria-hidden="true">3/s</span> ${texts.legend.rate}</li>
    <li><span class="flow-key bad" aria-hidden="true">✕ 3</span> ${texts.legend.failed}</li>
    <li><span class="flow-key warn" aria-hidden="true">… 3</span> ${texts.legend.waiting}</li>
  </ul>`;
