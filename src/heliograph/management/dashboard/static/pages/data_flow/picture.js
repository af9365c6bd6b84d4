// @ts-check
/** The picture: each thing a link with its sign and state, each edge with what runs along it. */
import { html } from "../../kernel/html.js";
import { compact, cut, rate } from "../../kernel/format.js";
import { HEIGHT, layoutOf, leftOf, WIDTH } from "./layout.js";
import texts from "../../texts/en/data_flow.js";

const NAME_MAX = 22;
const MORE_MAX = 24;
export const SIGNS = /** @type {Record<string, string>} */ ({ good: "●", warn: "▲", bad: "✕", off: "○", "": "" });

/**
 * @typedef {import("./layout.js").Placed} Placed
 * @typedef {import("./nodes.js").Flow} Flow
 */

/** @param {{ graph: import("./graph.js").Graph }} props */
export const Picture = ({ graph }) => {
  const { nodes, lines, width, height } = layoutOf(graph);
  const byId = new Map(nodes.map((one) => [one.id, one]));
  return html`
    <div class="table flow" role="region" aria-label=${texts.picture} tabindex="0">
      <svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="group"
        aria-label=${texts.picture}>
        ${texts.columns.map((title, column) => html`<text key=${title} class="flow-head" x=${leftOf(column)} y="16">
          ${title}</text>`)}
        ${lines.map(({ from, to, d }) => html`<path key=${`${from} ${to}`} d=${d}
          class=${`flow-line ${lineOf(byId.get(from), byId.get(to))}`} />`)}
        ${nodes.map((node) => html`<${Thing} key=${node.id} node=${node} leads=${lines.filter(({ from }) =>
          from === node.id).map(({ to }) => byId.get(to)?.name ?? "")} />`)}
      </svg>
    </div>`;
};

/** How an edge is: what fails at its left end, or at its right one where that counts it. */
const lineOf = (/** @type {Placed | undefined} */ from, /** @type {Placed | undefined} */ to) => {
  const flow = from?.goes ?? to?.comes;
  if (from?.health === "off" || to?.health === "off") return "off";
  if (to?.health === "bad" && to.column > 1) return "bad";
  return flow?.failed ? "warn" : flow?.rate ? "good" : "";
};

/** @param {{ node: Placed, leads: string[] }} props */
const Thing = ({ node, leads }) => {
  const { x, y, kind, name, more, state, health, href, comes, goes } = node;
  const word = texts.states[state] ?? state;
  const second = [word, more].filter(Boolean).join(" · ");
  const facts = [word, more, ...inWords(comes, texts.inSecond), ...inWords(goes, texts.outSecond),
    ...(leads.length ? [texts.leads(leads.slice(0, 5))] : [])].filter(Boolean);
  const drawn = html`
    <title>${texts.label(kind, name, facts)}</title>
    <rect x=${x + 1} y=${y} width=${WIDTH - 2} height=${HEIGHT} rx="6" />
    <text class="flow-name" x=${x + 9} y=${y + (second ? 16 : 23)}>${cut(name, NAME_MAX)}</text>
    <text class="flow-more" x=${x + 9} y=${y + 31}>${health && html`<tspan class="flow-sign">
      ${SIGNS[health]} </tspan>`}${cut(second, MORE_MAX)}</text>`;
  return html`
    ${href ? html`<a href=${href} class=${`flow-node ${health}`}>${drawn}</a>`
      : html`<g class=${`flow-node ${health}`} role="img">${drawn}</g>`}
    ${comes && html`<${Figures} flow=${comes} x=${x - 6} y=${y + HEIGHT / 2} anchor="end" />`}
    ${goes && html`<${Figures} flow=${goes} x=${x + WIDTH + 6} y=${y + HEIGHT / 2} anchor="start" />`}`;
};

/** @param {Flow | null} flow @param {(rate: string) => string} words */
const inWords = (flow, words) => (flow ? [flow.rate !== null && words(rate(flow.rate)), flow.failed > 0
  && texts.failures(flow.failed), flow.waiting > 0 && texts.waits(flow.waiting)].filter((one) => one !== false) : []);

/** What the label of the link says already. @param {{ flow: Flow, x: number, y: number, anchor: string }} props */
const Figures = ({ flow, x, y, anchor }) => html`
  <g class="flow-figures" aria-hidden="true" text-anchor=${anchor}>
    ${flow.rate !== null && html`<text x=${x} y=${y - 5}>${rate(flow.rate)}</text>`}
    ${flow.failed > 0 && html`<text class="bad" x=${x} y=${y + 14}>✕ ${compact(flow.failed)}</text>`}
    ${flow.waiting > 0 && html`<text class="warn" x=${x} y=${y + (flow.failed > 0 ? 27 : 14)}>
      … ${compact(flow.waiting)}</text>`}
  </g>`;
