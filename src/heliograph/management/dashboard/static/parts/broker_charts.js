// @ts-check
/** The two charts of the overview and of a node: messages in and out, and what the user chooses. */
import { html, useState } from "../kernel/html.js";
import { bytes, compact, duration, rate } from "../kernel/format.js";
import { LIVE, RANGES, useRecent, useSeries } from "../kernel/series.js";
import { Chart } from "./chart.js";
import { Choice } from "./choice.js";
import { ErrorNote } from "./notice.js";
import charts from "../texts/en/chart.js";
import texts from "../texts/en/broker_charts.js";

const DROPS = ["queue_full", "expired", "qos0_msg", "too_large", "not_authorized", "no_subscribers", "refused"];
const byteRate = (/** @type {number | null | undefined} */ value) =>
  (value === null || value === undefined ? bytes(null) : `${bytes(value)}/s`);
const micros = (/** @type {number | null | undefined} */ value) =>
  duration(value === null || value === undefined ? null : value / 1e6);

/**
 * @typedef {{ names: string[], show: (value: number | null | undefined) => string, isWhole?: boolean }} Shown
 * @type {Record<string, Shown>}
 */
const SECOND = {
  drops: { names: DROPS.map((reason) => `dropped.${reason}`), show: rate },
  connections: { names: ["live_connections", "connections"], show: compact, isWhole: true },
  bytes: { names: ["bytes_received", "bytes_sent"], show: byteRate },
  turns: { names: ["longest_turn_us"], show: micros },
  memory: { names: ["memory_bytes"], show: bytes },
};
const MESSAGES = ["received", "sent"];
const ALL = [...MESSAGES, ...Object.values(SECOND).flatMap(({ names }) => names)];

/**
 * What the stream says of a broker or a node, by the names of the history.
 * @typedef {Api.OverviewEvent | Api.WholeNode} Numbers
 * @param {Numbers} event @param {number} at
 */
const pointOf = (event, at) => ({
  at, ...event.rates, live_connections: event.connections, connections: event.sessions,
  memory_bytes: event.memory_bytes,
  longest_turn_us: event.longest_turn_s * 1e6,
  ...Object.fromEntries(DROPS.map((reason) => [`dropped.${reason}`, event.drops[reason]])),
});

/**
 * @param {{ event: Numbers | undefined, at: number, node?: string }} props `event` is the newest of the stream,
 *   undefined before the first.
 */
export const BrokerCharts = ({ event, at, node = "" }) => {
  const [range, setRange] = useState(LIVE);
  const [second, setSecond] = useState("drops");
  const live = useRecent(node, ALL, event && pointOf(event, at));
  const ranges = RANGES.map((value) => ({ value, label: charts.ranges[value] }));
  const choices = Object.keys(SECOND).map((value) => ({ value, label: texts.second[value] }));
  return html`
    <div class="charts-head"><${Choice} label=${charts.range} options=${ranges} value=${range}
      onChoose=${setRange} /></div>
    <div class="cards">
      <${Loaded} title=${texts.messages} names=${MESSAGES} show=${rate} ...${{ range, node, live }} />
      <${Loaded} key=${second} title=${texts.second[second]} ...${SECOND[second]} ...${{ range, node, live }}>
        <${Choice} label=${charts.chart} options=${choices} value=${second} onChoose=${setSecond} />
      <//>
    </div>`;
};

/**
 * @param {Shown & { title: string, range: string, node: string, live: import("../kernel/series.js").Series,
 *   children?: unknown }} props
 */
const Loaded = ({ title, names, show, isWhole, range, node, live, children }) => {
  const series = useSeries(range, node, names, live);
  const data = series.data ?? { at: [], values: {} };
  const lines = names.map((name) => ({ label: texts.lines[name], values: data.values[name] ?? [] }));
  const isEmpty = data.at.length > 0 && lines.length > 2;
  const shown = isEmpty ? lines.filter(({ values }, index) => index === 0 || values.some(Boolean)) : lines;
  return html`
    <section class="card" aria-busy=${series.isLoading}>
      <${ErrorNote} error=${series.error} again=${series.reload} />
      <${Chart} title=${title} at=${data.at} lines=${shown} show=${show} isWhole=${isWhole}>${children}<//>
    </section>`;
};
