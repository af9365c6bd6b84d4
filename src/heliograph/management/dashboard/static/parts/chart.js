// @ts-check
/** Charts over time, by uPlot: colours of the theme, a legend with values, and words for who cannot see them. */
import uPlot from "../vendor/uPlot.mjs";
import { html, useEffect, useRef, useState } from "../kernel/html.js";
import { time } from "../kernel/format.js";
import { axes, strokes } from "./chart_axes.js";
import texts from "../texts/en/chart.js";

const WIDTH_MIN = 200;

/**
 * @typedef {{ label: string, values: (number | null)[] }} Line
 * @param {{ title: string, at: number[], lines: Line[], show: (value: number | null | undefined) => string,
 *   height?: number, isWhole?: boolean, children?: unknown }} props `at` are milliseconds since the epoch, ascending.
 */
export const Chart = ({ title, at, lines, show, height = 230, isWhole = false, children }) => {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {uPlot | null} */ (null));
  const [index, setIndex] = useState(/** @type {number | null} */ (null));
  const [scheme, setScheme] = useState(0);
  const names = lines.map(({ label }) => label).join("|");
  /** @type {import("uplot").AlignedData} */
  const data = [at.map((one) => one / 1000), ...lines.map(({ values }) => values)];

  useEffect(() => watchScheme(() => setScheme((old) => old + 1)), []);
  useEffect(() => {
    const host = /** @type {HTMLElement} */ (place.current);
    const width = () => Math.max(WIDTH_MIN, Math.floor(host.clientWidth));
    const made = new uPlot(optionsOf(lines, axes(show, isWhole), width(), height, setIndex), data, host);
    plot.current = made;
    const watch = new ResizeObserver(() => made.width !== width() && made.setSize({ width: width(), height }));
    watch.observe(host);
    return () => { watch.disconnect(); made.destroy(); plot.current = null; };
  }, [names, scheme, height, show]);
  useEffect(() => { plot.current?.setData(data); });

  const last = at.findLastIndex((_, row) => lines.some(({ values }) => (values[row] ?? null) !== null));
  const shown = index !== null && index < at.length ? index : last;
  return html`
    <figure class="chart">
      <figcaption><h2>${title}</h2>${children}</figcaption>
      <ul class="legend">
        ${lines.map((line, number) => html`<li key=${line.label}>
          <span class=${`line line-${number + 1}`} aria-hidden="true"></span>${line.label} <strong>
          ${show(line.values[shown])}</strong></li>`)}
        <li class="quiet">${time(at[shown])}</li>
      </ul>
      <div class="plot" role="img" aria-label=${texts.summary(title, lines.map((line) => summaryOf(line, show)))}
        ref=${place}></div>
      <${AsTable} title=${title} at=${at} lines=${lines} show=${show} />
    </figure>`;
};

/**
 * @param {Line[]} lines
 * @param {import("uplot").Axis[]} shownAxes
 * @param {number} width
 * @param {number} height
 * @param {(index: number | null) => void} onIndex
 * @returns {import("uplot").Options}
 */
const optionsOf = (lines, shownAxes, width, height, onIndex) => ({
  width, height, legend: { show: false },
  cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
  scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
  axes: shownAxes,
  series: [{}, ...lines.map((line, number) => ({ label: line.label, ...strokes(number), width: 1.6, spanGaps: false,
    points: { show: false } }))],
  hooks: { setCursor: [(self) => onIndex(self.cursor.idx ?? null)] },
});

/** @param {() => void} listener */
const watchScheme = (listener) => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", listener);
  addEventListener("scheme", listener);
  return () => {
    system.removeEventListener("change", listener);
    removeEventListener("scheme", listener);
  };
};

/** @param {Line} line @param {(value: number | null | undefined) => string} show */
const summaryOf = ({ label, values }, show) => {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.length === 0) return texts.nothing(label);
  const [least, most] = known.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    [Infinity, -Infinity]);
  return texts.line(label, show(known[known.length - 1]), show(least), show(most));
};

const ROWS_MAX = 40;

/**
 * The same as numbers, for who asks.
 * @param {{ title: string, at: number[], lines: Line[], show: (value: number | null | undefined) => string }} props
 */
const AsTable = ({ title, at, lines, show }) => {
  const [isOpen, setOpen] = useState(false);
  const step = Math.max(1, Math.ceil(at.length / ROWS_MAX));
  const rows = isOpen ? at.map((_, row) => row).filter((row) => (at.length - 1 - row) % step === 0).reverse() : [];
  return html`
    <details class="as-table"
      onToggle=${(/** @type {{ target: HTMLDetailsElement }} */ event) => setOpen(event.target.open)}>
      <summary>${texts.asTable}</summary>
      ${isOpen && html`<div class="table" role="region" aria-label=${title} tabindex="0"><table>
        <caption>${title}</caption>
        <thead><tr><th scope="col">${texts.time}</th>${lines.map(({ label }) =>
          html`<th scope="col" class="number">${label}</th>`)}</tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${at[row]}><th scope="row">${time(at[row])}</th>
          ${lines.map(({ values }) => html`<td class="number">${show(values[row])}</td>`)}</tr>`)}</tbody>
      </table></div>`}
    </details>`;
};

