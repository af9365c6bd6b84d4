// @ts-check
/** Messages of a filter as they are published. */
import { html, submitting, useState } from "../../kernel/html.js";
import { cut, time } from "../../kernel/format.js";
import { link, replaceQuery } from "../../kernel/router.js";
import { Dialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { FactList } from "../../parts/facts.js";
import { ErrorNote } from "../../parts/notice.js";
import { Payload, PayloadLine } from "../../parts/payload.js";
import { Table } from "../../parts/table.js";
import { useTail } from "./tail_source.js";
import texts from "../../texts/en/topics.js";

const RATES = [1, 5, 10, 50, 100].map((value) => ({ value: String(value), label: texts.perSecond(value) }));

/** @typedef {import("./tail_source.js").Tailed} Tailed */

/** @param {{ route: import("../../kernel/router.js").Route }} props */
export const LiveTail = ({ route }) => {
  const [filter, setFilter] = useState(route.query.topic ?? "#");
  const [rate, setRate] = useState("10");
  const [watched, setWatched] = useState(/** @type {import("./tail_source.js").Watched | null} */ (null));
  const [isPaused, setPaused] = useState(false);
  const [open, setOpen] = useState(/** @type {Tailed | null} */ (null));
  const tail = useTail(watched, isPaused);
  const isOn = watched !== null && (tail.state === "on" || tail.state === "begins");
  const submit = submitting(() => {
    setPaused(false);
    setWatched(isOn ? null : { filter, rate });
    replaceQuery({ topic: filter });
  });
  return html`
    <p class="quiet">${texts.tailIntro}</p>
    <form class="filters" onSubmit=${submit}>
      <${Field} label=${texts.filter} value=${filter} onInput=${setFilter} isRequired readonly=${isOn} class="code"
        error=${tail.error?.field === "topic" ? tail.error.message : ""} />
      <${Field} label=${texts.rateMost} value=${rate} options=${RATES} onInput=${setRate} disabled=${isOn} />
      <button type="submit" class=${isOn ? "" : "main"}>${isOn ? texts.stop : texts.begin}</button>
      <button type="button" disabled=${!isOn} aria-pressed=${String(isPaused)} onClick=${() => setPaused(!isPaused)}>
        ${isPaused ? texts.goOn : texts.pause}</button>
      <button type="button" disabled=${tail.messages.length === 0} onClick=${tail.empty}>${texts.empty}</button>
    </form>
    <${ErrorNote} error=${tail.error?.field === "topic" ? null : tail.error} />
    <p role="status"><${State} watched=${watched} state=${isOn && isPaused ? "paused" : watched ? tail.state : "off"} />
      ${tail.leftOut > 0 && html` <span class="badge warn">${texts.leftOut(tail.leftOut)}</span>`}</p>
    <div class="tail"><${Table} caption=${texts.tabs.tail} columns=${columns(setOpen)} rows=${tail.messages}
      rowKey="place" empty=${texts.noneYet} /></div>
    ${open && html`<${Message} message=${open} onClose=${() => setOpen(null)} />`}`;
};

/** @param {{ watched: import("./tail_source.js").Watched | null, state: string }} props */
const State = ({ watched, state }) =>
  html`<span class=${`badge ${state === "on" ? "good" : state === "broken" ? "bad" : ""}`}>
  ${state === "on" ? texts.tailOn(watched?.filter ?? "") : state === "paused" ? texts.tailPaused : state === "broken"
    ? texts.tailBroken : state === "begins" ? texts.tailBegins : texts.tailOff}</span>`;

/** @param {(message: Tailed) => void} setOpen @returns {import("../../parts/table.js").Column<Tailed>[]} */
const columns = (setOpen) => [
  { key: "received_at", title: texts.receivedAt, show: (row) => time(row.received_at).slice(11) },
  { key: "topic", title: texts.topic, kind: "code", isHead: true },
  { key: "from_clientid", title: texts.client, kind: "code", show: (row) =>
    html`<span class="nowrap" title=${row.from_clientid}>${cut(row.from_clientid, 28)}</span>` },
  { key: "qos", title: texts.qos, kind: "number" },
  { key: "payload", title: texts.payload, show: (row) => html`<${PayloadLine} base64=${row.payload}
    size=${row.payload_bytes} />` },
  { key: "do", title: texts.actions, kind: "actions", show: (row) => html`
    <button type="button" aria-label=${texts.showNamed(row.topic, time(row.received_at))} onClick=${() => setOpen(row)}>
      ${texts.show}</button>` },
];

/** @param {{ message: Tailed, onClose: () => void }} props */
const Message = ({ message, onClose }) => {
  const properties = Object.entries(message.properties);
  return html`
    <${Dialog} title=${texts.message} isWide onClose=${onClose}>
      <${FactList} rows=${[
        [texts.topic, html`<code>${message.topic}</code>`],
        [texts.client, message.from_clientid],
        [texts.receivedAt, time(message.received_at)],
        [texts.qos, message.qos],
        [texts.retain, message.retain ? texts.yes : texts.no],
        [texts.properties, properties.length ? properties.map(([name, value]) =>
          html`<div key=${name}><code>${name}: ${JSON.stringify(value)}</code></div>`) : texts.noProperties],
      ]} />
      <p class="topic-links"><a href=${link("message_way", message.msgid)}>${texts.way}</a></p>
      <h3>${texts.payload}</h3>
      <${Payload} base64=${message.payload} size=${message.payload_bytes} />
      ${message.payload_bytes > 16384 && html`<p class="quiet">${texts.cut}</p>`}
    <//>`;
};
