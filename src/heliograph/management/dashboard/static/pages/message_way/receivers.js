// @ts-check
/** The receivers of a message: what became of it at each, and on one scale when. */
import { html } from "../../kernel/html.js";
import { cut } from "../../kernel/format.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { Table } from "../../parts/table.js";
import { after } from "./times.js";
import texts from "../../texts/en/message_way.js";

const { receivers: words } = texts;
const WIDTH = 200;

/** @param {{ receivers: Api.WayReceiver[] }} props */
export const Receivers = ({ receivers }) => {
  if (receivers.length === 0) return null;
  const longest = Math.max(1, ...receivers.map(lastOf));
  return html`
    <section aria-label=${texts.stages.receivers}>
      <h2>${texts.stages.receivers}</h2>
      <p class="quiet way-legend"><span class="way-key queued" aria-hidden="true"></span>${texts.legend.queued}
        <span class="way-key sent" aria-hidden="true"></span>${texts.legend.sent}</p>
      <${Table} caption=${texts.stages.receivers} columns=${columnsOf(longest)} rows=${receivers}
        rowKey="clientid" />
    </section>`;
};

/** @param {Api.WayReceiver} row */
const lastOf = (row) =>
  Math.max(row.queued_after_us, row.sent_after_us, row.acknowledged_after_us, row.dropped_after_us);

/** @param {number} longest @returns {import("../../parts/table.js").Column<Api.WayReceiver>[]} */
const columnsOf = (longest) => [
  {
    key: "clientid", title: words.clientid, kind: "code", isHead: true,
    show: ({ clientid }) => (may("clients:read")
      ? html`<a href=${link("clients", clientid)} title=${clientid}>${cut(clientid, 50)}</a>`
      : cut(clientid, 50)),
  },
  {
    key: "topic_filter", title: words.filter,
    show: ({ topic_filter, qos }) =>
      html`<code>${cut(topic_filter, 60)}</code> <small class="quiet">${words.qos(qos)}</small>`,
  },
  { key: "state", title: words.state, show: (row) => html`<${State} ...${row} />` },
  {
    key: "times", title: words.times,
    show: (row) => html`<${Bar} row=${row} longest=${longest} /><small>${wordsOf(row)}</small>`,
  },
  { key: "why", title: words.why },
];

/** @param {{ state: string, reason: string }} props */
const State = ({ state, reason }) => html`
  <span class=${`badge ${words.states[state].sign}`}>${words.states[state].label}</span>
  ${reason && html` <code>${reason}</code>`}`;

/** @param {Api.WayReceiver} row */
const wordsOf = (row) => {
  const { queued_after_us: queued, sent_after_us: sent, acknowledged_after_us: done, dropped_after_us: dropped } = row;
  return [
    queued >= 0 && sent >= queued ? words.waited(after(sent - queued)) : "",
    sent === 0 ? words.atOnce : sent > 0 ? words.sent(after(sent)) : "",
    done >= 0 && sent >= 0 ? words.acknowledged(after(done - sent)) : "",
    dropped >= 0 ? words.dropped(after(dropped)) : "",
    row.sent_count > 1 ? words.repeated(row.sent_count) : "",
  ].filter(Boolean).join(", ");
};

/** What `wordsOf` says, as a picture. @param {{ row: Api.WayReceiver, longest: number }} props */
const Bar = ({ row, longest }) => {
  const x = (/** @type {number} */ at) => Math.round((Math.max(0, at) / longest) * (WIDTH - 8)) + 4;
  const { queued_after_us: queued, sent_after_us: sent, acknowledged_after_us: done, dropped_after_us: dropped } = row;
  const end = sent >= 0 ? sent : dropped >= 0 ? dropped : longest;
  return html`
    <svg class="way-bar" viewBox=${`0 0 ${WIDTH} 14`} width=${WIDTH} height="14" aria-hidden="true">
      <line class="axis" x1="0" y1="7" x2=${WIDTH} y2="7" />
      ${queued >= 0 && span("queued", x(queued), x(end))}
      ${sent >= 0 && done >= 0 && span("sent", x(sent), x(done))}
      ${sent >= 0 && html`<circle class="sent" cx=${x(sent)} cy="7" r="3.5" />`}
      ${done >= 0 && html`<circle class="done" cx=${x(done)} cy="7" r="3.5" />`}
      ${dropped >= 0 && html`<path class="dropped" d=${`M${x(dropped) - 4} 3l8 8m0 -8l-8 8`} />`}
    </svg>`;
};

/** @param {string} kind @param {number} from @param {number} to */
const span = (kind, from, to) =>
  html`<rect class=${kind} x=${from} y="4" width=${Math.max(2, to - from)} height="6" />`;
