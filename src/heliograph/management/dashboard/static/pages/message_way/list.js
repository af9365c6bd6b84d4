// @ts-check
/** The messages that were recorded, the newest first, and what is recorded. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { cut, time } from "../../kernel/format.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link, navigate, replaceQuery } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, Loaded, PageHead, tell } from "../../parts/notice.js";
import { Pager, Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/message_way.js";

const LIMIT = 50;

const OUTCOMES = [
  ...texts.outcomeGroups,
  ...Object.entries(texts.outcomes).map(([value, { label }]) => ({ value, label })),
];

/** @param {string} seconds */
const sinceOf = (seconds) => (seconds ? String(Date.now() - Number(seconds) * 1000) : "");

/** @param {{ query: Record<string, string> }} props */
export const MessageList = ({ query }) => {
  const { topic = "", client = "", since = "", outcome = "", reason = "" } = query;
  const [cursors, setCursors] = useState(/** @type {string[]} */ ([]));
  const cursor = cursors.at(-1);
  const found = useResource(JSON.stringify([topic, client, since, outcome, reason, cursor]), (signal) =>
    api.get("heliograph/message_ways",
      { topic, clientid: client, since: sinceOf(since), outcome, reason, limit: LIMIT, cursor }, signal));
  const isOfTopic = found.error?.field === "topic"; // it stands at its field
  const search = (/** @type {Record<string, string>} */ { id, ...wanted }) => {
    setCursors([]);
    if (id) navigate(link("message_way", id, { client: wanted.client }));
    else replaceQuery(wanted);
    if (!id) found.reload();
  };
  return html`
    <${PageHead} title=${texts.title}><button type="button" onClick=${found.reload}>${everywhere.refresh}</button><//>
    <${SearchForm} query=${query} onSearch=${search} error=${found.error} />
    ${!isOfTopic && html`<${Loaded} of=${found}>${(/** @type {Api.WayList} */ { data, meta }) => html`
      <${Recording} of=${meta.recording} reload=${found.reload} />
      <${Table} caption=${texts.found} columns=${COLUMNS} rows=${data}
        rowKey="id"
        empty=${topic || client || since || outcome || reason ? texts.none : texts.noneAtAll}
        isBusy=${found.isLoading} />
      ${(meta.cursor || cursors.length > 0) && html`
        <${Pager} hasMore=${!!meta.cursor} hasBefore=${cursors.length > 0}
          onMore=${() => setCursors([...cursors, meta.cursor ?? ""])}
          onBefore=${() => setCursors(cursors.slice(0, -1))} />`}`}<//>`}`;
};

/**
 * @param {{ query: Record<string, string>, onSearch: (query: Record<string, string>) => void,
 *   error: import("../../kernel/resource.js").Failure | null }} props
 */
const SearchForm = ({ query, onSearch, error }) => {
  const [id, setId] = useState("");
  const [topic, setTopic] = useState(query.topic ?? "");
  const [client, setClient] = useState(query.client ?? "");
  const [since, setSince] = useState(query.since ?? "");
  const [outcome, setOutcome] = useState(query.outcome ?? "");
  const [reason, setReason] = useState(query.reason ?? "");
  const submit = submitting(() => onSearch({ id: id.trim(), topic, client, since, outcome, reason: reason.trim() }));
  return html`
    <form class="filters" role="search" onSubmit=${submit}>
      <${Field} label=${texts.topic} value=${topic} onInput=${setTopic} type="search" placeholder=${texts.topicHint}
        error=${error?.field === "topic" ? error.message : ""} />
      <${Field} label=${texts.client} value=${client} onInput=${setClient} type="search"
        placeholder=${texts.clientHint} />
      <${Field} label=${texts.since} value=${since} onInput=${setSince} options=${texts.spans} />
      <${Field} label=${texts.columns.outcome} value=${outcome} onInput=${setOutcome} options=${OUTCOMES} />
      <${Field} label=${texts.reason} value=${reason} onInput=${setReason} type="search"
        placeholder=${texts.reasonHint} />
      <${Field} label=${texts.messageId} value=${id} onInput=${setId} type="search" maxlength="40" />
      <button type="submit" class="main">${texts.search}</button>
    </form>`;
};

/**
 * What is recorded now; where nothing is, how that begins.
 * @param {{ of: Api.RecordingState, reload: () => void }} props
 */
const Recording = ({ of, reload }) => {
  const turn = useAction(async (/** @type {boolean} */ isOn) => {
    await api.post("heliograph/configuration/change", { values: { "diagnose.messages.enable": String(isOn) } });
    tell(isOn ? texts.off.begun : texts.ended);
    reload();
  });
  const more = may("config:read") && html`<a href=${link("configuration", "diagnose")}>${texts.off.more}</a>`;
  if (!of.is_recording) {
    return html`
      <div class="note warn"><p>${texts.off.text}</p>
        <div class="actions">${may("config:write") && html`
          <button type="button" disabled=${turn.isRunning} onClick=${() => turn.run(true)}>${texts.off.begin}</button>`}
          ${more}</div>
      </div>
      <${ErrorNote} error=${turn.error} />`;
  }
  return html`
    <p class="quiet">${texts.on(of)} ${more} ${may("config:write") && html`<button type="button" class="plain"
      disabled=${turn.isRunning} onClick=${() => turn.run(false)}>${texts.end}</button>`}</p>
    <${ErrorNote} error=${turn.error} />
    ${of.missed > 0 && html`<p class="note warn">${texts.missed(of.missed)}</p>`}`;
};

/** @param {{ label: string, sign: string }} outcome */
const badge = ({ label, sign }) => html`<span class=${`badge ${sign}`}>${label}</span>`;

/** @type {import("../../parts/table.js").Column<Api.WayObject>[]} */
const COLUMNS = [
  {
    key: "at", title: texts.columns.at, isHead: true,
    show: ({ id, at }) => html`<a class="nowrap" href=${link("message_way", id)}>${time(at)}</a>`,
  },
  {
    key: "topic", title: texts.columns.topic, kind: "code",
    show: ({ topic }) => html`<span title=${topic}>${cut(topic, 60)}</span>`,
  },
  {
    key: "clientid", title: texts.columns.clientid, kind: "code",
    show: ({ clientid }) => (clientid ? html`<span title=${clientid}>${cut(clientid, 40)}</span>` : texts.broker),
  },
  { key: "qos", title: texts.columns.qos, kind: "number" },
  {
    key: "outcome", title: texts.columns.outcome,
    show: ({ outcome }) => badge(texts.outcomes[outcome]),
  },
  { key: "receivers", title: texts.columns.receivers, kind: "number", show: texts.reached },
  { key: "why", title: texts.columns.why, show: ({ why }) => why
    && html`<span class="way-why" title=${why}>${cut(why, 120)}</span>` },
];
