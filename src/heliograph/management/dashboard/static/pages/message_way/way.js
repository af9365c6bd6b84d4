// @ts-check
/** The way of one message: what it was, what became of it, and why a client did not get it. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { bytes, cut, duration, time } from "../../kernel/format.js";
import { own } from "../../kernel/own.js";
import { useResource } from "../../kernel/resource.js";
import { link, replaceQuery } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import { Loaded, PageHead } from "../../parts/notice.js";
import { Flow } from "./flow.js";
import { Receivers } from "./receivers.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/message_way.js";

/** The pages of validations and transformations, by what a step calls them. @type {Record<string, string>} */
const PAGES = { "schema validation": "schema_validation", "message transformation": "message_transformation" };

/** @param {{ id: string, asked: string }} props */
export const MessageWay = ({ id, asked }) => {
  const way = useResource(JSON.stringify([id, asked]), (signal) =>
    api.get(path("heliograph/message_ways/{id}", id), { clientid: asked }, signal));
  const title = way.data ? texts.wayTitle(cut(way.data.topic)) : texts.title;
  return html`
    <${PageHead} title=${title}>
      <button type="button" onClick=${way.reload}>${everywhere.refresh}</button>
      <a class="button" href=${link("message_way")}>${texts.all}</a>
    <//>
    <${Loaded} of=${way}>${(/** @type {Api.WholeWay} */ data) => html`
      <${Outcome} way=${data} asked=${asked} />
      <${Flow} way=${data} />
      <${Receivers} receivers=${data.receivers} />
      ${data.left_out > 0 && html`<p class="note warn">${texts.leftOut(data.left_out)}</p>`}`}<//>`;
};

/** @param {{ way: Api.WholeWay, asked: string }} props */
const Outcome = ({ way, asked }) => {
  const { label, sign } = texts.outcomes[way.outcome];
  return html`
    <section class="card way-outcome" aria-label=${texts.columns.outcome}>
      <p class="way-summary"><span class=${`badge ${sign}`}>${label}</span> ${way.summary}</p>
      <p class="quiet">
        ${time(way.at)} · ${publisher(way)} · ${texts.quality(way)} · ${texts.size(bytes(way.payload_bytes))}
        ${way.expires_after_s >= 0 ? ` · ${texts.expires(duration(way.expires_after_s))}` : ""}
        ${way.made_by.length > 0 ? ` · ${texts.madeBy(way.made_by)}` : ""}
      </p>
      <p class="quiet code">${way.topic}<br />${way.id}</p>
      ${way.retained && html`<p>${texts.retained(way.retained)}</p>`}
      ${way.later && html`<p><a href=${link("message_way", way.later)}>${texts.later}</a></p>`}
      ${!way.is_begun && html`<p class="note warn">${texts.notBegun}</p>`}
      ${way.reason === "not_authorized" && way.clientid && may("authorization:read") && html`<p><a
        href=${ruleOf(way)}>${texts.whichRule}</a></p>`}
      ${may("policies:read") && html`<${Refuser} steps=${way.steps} />`}
      <${Ask} asked=${asked} answer=${way.asked} />
    </section>`;
};

/** Leads to the validation or transformation that refused the message. @param {{ steps: Api.WayStep[] }} props */
const Refuser = ({ steps }) => {
  const { who, policy } = steps.find((step) => step.is_bad && step.policy) ?? { who: "", policy: "" };
  const page = PAGES[who];
  return page && html`<p><a href=${link(page, policy)}>${own(texts.policy, page)?.(policy)}</a></p>`;
};

/** Where the page says what decides that its publisher may not publish it. @param {Api.WholeWay} way */
const ruleOf = ({ clientid, username, topic, qos, retain }) => link("explain",
  { clientid, username: username || "", isDescribed: username ? "true" : "", topic, qos, retain });

/** @param {Api.WholeWay} way */
const publisher = (way) => (way.clientid && may("clients:read")
  ? html`<a href=${link("clients", way.clientid)}>${cut(texts.publishedBy(way))}</a>`
  : cut(texts.publishedBy(way)));

/** @param {{ asked: string, answer: string }} props */
const Ask = ({ asked, answer }) => {
  const [typed, setTyped] = useState(asked);
  const ask = submitting(() => replaceQuery({ client: typed }));
  return html`
    <form class="filters way-ask" onSubmit=${ask}>
      <${Field} label=${texts.ask.label} value=${typed} onInput=${setTyped} type="search"
        placeholder=${texts.ask.hint} />
      <button type="submit" disabled=${!typed}>${texts.ask.button}</button>
    </form>
    <p class="way-answer" role="status">${answer}</p>`;
};
