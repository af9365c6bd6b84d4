// @ts-check
/** The stages of a message's way as cards in their order, each with what happened there. */
import { html } from "../../kernel/html.js";
import { cut } from "../../kernel/format.js";
import { after } from "./times.js";
import texts from "../../texts/en/message_way.js";

/** @type {Record<string, "publish" | "check" | "store" | "route">} */
const STAGE_OF = {
  publish: "publish", answer: "publish", access: "check", hook: "check", rule: "check", store: "store", route: "route",
};
const HAVE = ["sent", "acknowledged"];

/** @param {{ way: Api.WholeWay }} props */
export const Flow = ({ way }) => {
  const of = (/** @type {string} */ stage) =>
    way.steps.filter((step) => STAGE_OF[step.stage] === stage);
  const published = [{ after_us: 0, text: texts.publishedBy(way), who: "", is_bad: false }, ...of("publish")];
  return html`
    <section aria-label=${texts.way}>
      <h2>${texts.way}</h2>
      <ol class="way-flow">
        <${Stage} title=${texts.stages.publish} steps=${published} />
        <${Stage} title=${texts.stages.check} steps=${of("check")} nothing=${texts.nothing.check} />
        <${Stage} title=${texts.stages.store} steps=${of("store")} nothing=${texts.nothing.store} />
        <${Stage} title=${texts.stages.route} steps=${of("route")} nothing=${texts.nothing.route} />
        <${ReceiversStage} receivers=${way.receivers} />
      </ol>
    </section>`;
};

/** @param {{ title: string, steps: Api.WayStep[], nothing?: string }} props */
const Stage = ({ title, steps, nothing = "" }) => {
  const isBad = steps.some(({ is_bad }) => is_bad);
  return html`
    <li class=${isBad ? "bad" : steps.length ? "good" : "none"}>
      <h3>${title}<${Sign} isBad=${isBad} isDone=${steps.length > 0} /></h3>
      ${steps.length === 0 ? html`<p class="quiet">${nothing}</p>` : html`
        <ul>${steps.map((step, index) => html`
          <li key=${index} class=${step.is_bad ? "bad" : ""}>
            ${step.who && html`<b>${cut(step.who)}</b>: `}<span>${step.text}</span>
            ${step.after_us > 0 && html` <small class="quiet">${texts.after(after(step.after_us))}</small>`}
          </li>`)}</ul>`}
    </li>`;
};

/** @param {{ receivers: Api.WayReceiver[] }} props */
const ReceiversStage = ({ receivers }) => {
  const have = receivers.filter(({ state }) => HAVE.includes(state)).length;
  const isBad = receivers.some(({ state, reason }) => state === "dropped" && reason !== "no_local");
  const kind = receivers.length === 0 ? "none" : isBad ? "bad" : "good";
  return html`
    <li class=${kind}>
      <h3>${texts.stages.receivers}<${Sign} isBad=${isBad} isDone=${have > 0} /></h3>
      ${receivers.length ? html`<p>${texts.summaryOf(receivers, have)}</p>`
        : html`<p class="quiet">${texts.nothing.receivers}</p>`}
    </li>`;
};

/** @param {{ isBad: boolean, isDone: boolean }} props */
const Sign = ({ isBad, isDone }) => (isBad
  ? html` <span class="way-sign bad"><span aria-hidden="true">✕</span>
      <span class="way-hidden">${texts.problem}</span></span>`
  : isDone && html` <span class="way-sign good" aria-hidden="true">✓</span>`);
