// @ts-check
/** One client: what is known of it, and what can be done with it. */
import { html, useState } from "../../kernel/html.js";
import { api, ApiError, path } from "../../kernel/api.js";
import { cut } from "../../kernel/format.js";
import { own } from "../../kernel/own.js";
import { useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { ConfirmDialog } from "../../parts/dialog.js";
import { Loaded, PageHead, tell } from "../../parts/notice.js";
import { Tabs } from "../../parts/tabs.js";
import common from "../../texts/en/everywhere.js";
import texts from "../../texts/en/client.js";
import { PlanDialog } from "../clients/plan.js";
import { AccessTab } from "./access.js";
import { DisconnectsTab } from "./disconnects.js";
import { ClientFacts } from "./facts.js";
import { MessagesTab } from "./messages.js";
import { SubscriptionsTab } from "./subscriptions.js";

/** @typedef {{ id: string, client: import("./facts.js").Client, turn: number, reload: () => void }} TabProps */

/** @type {Record<string, (props: TabProps) => unknown>} */
const TABS = {
  facts: ClientFacts,
  subscriptions: SubscriptionsTab,
  inflight: ({ id, turn }) => html`<${MessagesTab} key="inflight" id=${id} turn=${turn} kind="inflight" />`,
  queue: ({ id, turn }) => html`<${MessagesTab} key="queue" id=${id} turn=${turn} kind="mqueue" />`,
  disconnects: DisconnectsTab,
  access: AccessTab,
};

/** @param {AbortSignal} signal @param {string} id */
const load = async (signal, id) => {
  try {
    return { client: await api.get(path("clients/{clientid}", id), {}, signal) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "CLIENTID_NOT_FOUND") throw error;
    return { client: null };
  }
};

/** @param {{ id: string, route: import("../../kernel/router.js").Route }} props */
export const OneClient = ({ id, route }) => {
  const found = useResource(id, (signal) => load(signal, id));
  const [turn, setTurn] = useState(0);
  const reload = () => { found.reload(); setTurn(turn + 1); };
  const tab = own(TABS, route.query.tab ?? "") ? route.query.tab : "facts";
  return html`
    <p><a href=${link("clients")}>${texts.back}</a></p>
    <${PageHead} title=${cut(id, 60)}>
      ${found.data?.client && html`<${ClientActions} id=${id} onDone=${reload} />`}
      <button type="button" onClick=${reload}>${common.refresh}</button>
    <//>
    <${Refusals} id=${id} turn=${turn} />
    <${Loaded} of=${found}>${(/** @type {{ client: Api.ClientObject | null }} */ { client }) => client
      ? html`<${OfSession} id=${id} client=${client} tab=${tab} turn=${turn} reload=${reload} />`
      : html`<p class="note warn">${texts.gone}</p>
        <${DisconnectsTab} id=${id} client=${null} turn=${turn} reload=${reload} />`}<//>`;
};

/** Its ban, and what it was refused lately. @param {{ id: string, turn: number }} props */
const Refusals = ({ id, turn }) => {
  const found = useResource(JSON.stringify([id, turn]), (signal) =>
    api.get(path("heliograph/clients/{clientid}/refusals", id), {}, signal));
  const { sentences = [] } = found.data ?? {};
  return sentences.length > 0 && html`
    <section class="note warn" aria-label=${texts.refused}>
      <p>${texts.refused}</p><ul>${sentences.map((/** @type {string} */ one) => html`<li key=${one}>${one}</li>`)}</ul>
    </section>`;
};

/** @param {TabProps & { tab: string }} props */
const OfSession = ({ tab, ...shared }) => {
  const tabs = Object.entries(texts.tabs).map(([name, title]) => ({
    id: name,
    title,
    href: link("clients", shared.id, { tab: name === "facts" ? "" : name }),
  }));
  const View = TABS[tab];
  return html`<${Tabs} label=${texts.tabsLabel} current=${tab} tabs=${tabs} /><${View} key=${tab} ...${shared} />`;
};

/** @param {{ id: string, onDone: () => void }} props */
const ClientActions = ({ id, onDone }) => {
  const [asked, setAsked] = useState("");
  const close = (/** @type {boolean} */ isDone) => {
    setAsked("");
    if (isDone) onDone();
  };
  const kick = async () => {
    await api.del(path("clients/{clientid}", id));
    tell(texts.kicked(cut(id, 60)));
  };
  return html`
    ${may("traces:write") && html`
      <a class="button" href=${link("traces", { tab: "live", type: "clientid", value: id })}>${texts.trace}</a>`}
    ${may("messages:read") && html`
      <a class="button" href=${link("message_way", { client: id })}>${texts.ways}</a>`}
    ${may("clients:write") && html`
      <button type="button" class="danger" onClick=${() => setAsked("kick")}>${texts.kick}</button>
      <button type="button" class="danger" onClick=${() => setAsked("ban")}>${texts.ban}</button>`}
    ${asked === "kick" && html`<${ConfirmDialog} title=${texts.kickTitle} text=${texts.kickText(cut(id, 200))}
      action=${texts.kickAct(cut(id, 40))} act=${kick} onClose=${close} />`}
    ${asked === "ban" && html`<${PlanDialog} verb="ban" query=${{ clientid: [id] }} onClose=${close} />`}`;
};
