// @ts-check
/** A trace that is watched while it is on; the newest records are kept. */
import { html, submitting, useState } from "../../kernel/html.js";
import { time } from "../../kernel/format.js";
import { own } from "../../kernel/own.js";
import { ErrorNote } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import texts from "../../texts/en/traces.js";
import { SubjectFields } from "./subject.js";
import { SHOWN_MAX, useWatch } from "./watch.js";

/** @typedef {import("./watch.js").Watched} Watched */

const NAMED = ["at", "event", "client", "message", "number"];

/** @param {Watched} record */
const rest = (record) => Object.entries(record).filter(([name]) => !NAMED.includes(name))
  .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");

/** The time of day with its fraction. @param {Watched} record */
const momentOf = ({ at }) => time(at).slice(11) + (/\.\d+/.exec(at)?.[0] ?? "");

/** The end of a message's id; what belongs to one message has the same. @param {Watched} record */
const shortId = ({ message }) => message && html`<span title=${message}>#${message.slice(-8)}</span>`;

/** @type {import("../../parts/table.js").Column<Watched>[]} */
const COLUMNS = [
  { key: "at", title: texts.time, kind: "time", isHead: true, show: momentOf },
  { key: "event", title: texts.event },
  { key: "client", title: texts.client, kind: "code" },
  { key: "message", title: texts.message, kind: "code", show: shortId },
  { key: "what", title: texts.what, kind: "code", show: rest },
];

/** @param {{ query: Record<string, string> }} props */
export const LiveTrace = ({ query }) => {
  const [subject, setSubject] = useState({
    type: own(texts.values, query.type ?? "") ? query.type : "clientid", value: query.value ?? "",
    payload: query.payload || "hidden",
  });
  const watched = useWatch();
  const submit = submitting(() => {
    const { type, value, payload } = subject;
    watched.begin({ type, value, payload_encode: payload });
  });
  return html`
    <p class="quiet">${texts.liveHint}</p>
    <form class="filters" onSubmit=${submit}>
      <${SubjectFields} subject=${subject} setSubject=${setSubject} />
      ${watched.isOn ? html`<button key="stop" type="button" onClick=${watched.stop}>${texts.end}</button>`
        : html`<button key="watch" type="submit" class="main">${texts.watch}</button>`}
    </form>
    <${ErrorNote} error=${watched.error} />
    <${WatchState} watched=${watched} />
    ${watched.count > 0 && html`<${Table} caption=${texts.live} columns=${COLUMNS} rows=${watched.records}
      rowKey="number" />`}`;
};

/** @param {{ watched: ReturnType<typeof useWatch> }} props */
const WatchState = ({ watched: { isOn, count, lost, why } }) => html`
  <p role="status">${[
    isOn && (count ? texts.watching(count) : texts.waiting), why && texts.over(why), lost > 0 && texts.lost(lost),
    count > SHOWN_MAX && texts.shown(SHOWN_MAX),
  ].filter(Boolean).join(" ")}</p>`;
