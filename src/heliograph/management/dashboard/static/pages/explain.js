// @ts-check
/** Whether a client may do something, and which source and rule decide it. */
import { html, submitting, useEffect, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { useAction } from "../kernel/resource.js";
import { CheckField, Field } from "../parts/field.js";
import { ErrorNote, PageHead } from "../parts/notice.js";
import { Table } from "../parts/table.js";
import texts from "../texts/en/explain.js";

const ACTIONS = [{ value: "publish", label: texts.publish }, { value: "subscribe", label: texts.subscribe }];
const EMPTY = { clientid: "", action: "publish", topic: "", qos: "0", retain: false, isDescribed: false, username: "",
  peerhost: "", listener: "tcp:default", isSuperuser: false };

/** @param {typeof EMPTY} form */
const queryOf = ({ isDescribed, username, peerhost, listener, isSuperuser, ...asked }) =>
  ({ ...asked, ...(isDescribed ? { username, peerhost, listener, is_superuser: isSuperuser } : {}) });

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function ExplainPage({ route }) {
  return html`<${Explain} key=${JSON.stringify(route.query)} query=${route.query} />`;
}

/** @param {{ query: Record<string, string> }} props What a link asks. */
const Explain = ({ query }) => {
  const [form, setForm] = useState({ ...EMPTY, ...query, retain: query.retain === "true" });
  const [answer, setAnswer] = useState(/** @type {Api.ExplainedAccess | null} */ (null));
  const put = (/** @type {string} */ name) => (/** @type {unknown} */ value) =>
    setForm((/** @type {typeof form} */ old) => ({ ...old, [name]: value }));
  const { run, isRunning, error } = useAction(async () => setAnswer(await api.get("heliograph/authorization/explain",
    queryOf(form))));
  useEffect(() => {
    if (form.clientid && form.topic) run(); // a link has asked
  }, []);
  const submit = submitting(() => {
    setAnswer(null);
    run();
  });
  const errorOf = (/** @type {string} */ name) => (error?.field === name ? error.message : "");
  return html`
    <${PageHead} title=${texts.title} />
    <p class="quiet">${texts.intro}</p>
    <form class="card" onSubmit=${submit}>
      <div class="filters">
        <${Field} label=${texts.clientid} value=${form.clientid} onInput=${put("clientid")} isRequired
          autocomplete="off" error=${errorOf("clientid")} />
        <${Field} label=${texts.action} options=${ACTIONS} value=${form.action} onInput=${put("action")} />
        <${Field} label=${texts.topic} value=${form.topic} onInput=${put("topic")} isRequired autocomplete="off"
          spellcheck="false" error=${errorOf("topic")} />
        <${Field} label=${texts.qos} options=${["0", "1", "2"]} value=${form.qos} onInput=${put("qos")} />
        ${form.action === "publish" && html`<${CheckField} label=${texts.retain} value=${form.retain}
          onInput=${put("retain")} />`}
      </div>
      <${CheckField} label=${texts.describe} value=${form.isDescribed} onInput=${put("isDescribed")} />
      ${form.isDescribed && html`<div class="filters">
        <${Field} label=${texts.username} value=${form.username} onInput=${put("username")} autocomplete="off" />
        <${Field} label=${texts.peerhost} value=${form.peerhost} onInput=${put("peerhost")} autocomplete="off" />
        <${Field} label=${texts.listener} value=${form.listener} onInput=${put("listener")} />
        <${CheckField} label=${texts.isSuperuser} value=${form.isSuperuser} onInput=${put("isSuperuser")} /></div>`}
      <${ErrorNote} error=${error && !errorOf("clientid") && !errorOf("topic") ? error : null} />
      <button type="submit" class="main" disabled=${isRunning}>${texts.ask}</button>
    </form>
    ${answer && html`<${Answer} answer=${answer} />`}`;
};

/** @param {Api.ExplainedAccess} answer @returns {import("../parts/table.js").Column<Api.ExplainedStep>[]} */
const columnsOf = (answer) => [
  { key: "source", title: texts.source, isHead: true, show: ({ source }) =>
    texts.sources[/** @type {keyof typeof texts.sources} */ (source)] ?? html`<code>${source}</code>` },
  { key: "said", title: texts.said, show: ({ source, said }) =>
    html`${texts.words[/** @type {keyof typeof texts.words} */ (said)] ?? said}
    ${source === answer.decided_by && html` <span class=${`badge ${answer.is_allowed ? "good" : "bad"}`}>
      ${texts.decides}</span>`}` },
  { key: "rule", title: texts.rule, kind: "code" },
  { key: "place", title: texts.place, kind: "code" },
  { key: "why", title: texts.why },
];

/** @param {{ answer: Api.ExplainedAccess }} props */
const Answer = ({ answer }) => html`
  <section class="card" aria-label=${texts.steps} aria-live="polite">
    <p><span class=${`badge ${answer.is_allowed ? "good" : "bad"}`}>
      ${answer.is_allowed ? texts.allowed : texts.denied}</span>
      ${" "}${!answer.is_allowed
        && texts.denyAction[/** @type {keyof typeof texts.denyAction} */ (answer.deny_action)]}</p>
    <p class="quiet">${texts.client(answer.clientid, answer.username, answer.is_connected)}</p>
    <${Table} caption=${texts.steps} columns=${columnsOf(answer)} rows=${answer.steps}
      rowKey="source" />
  </section>`;
