// @ts-check
/** A validation or a transformation as it stands in its form, tried on a message that is typed, or on a stored one. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { failureOf, useAction } from "../../kernel/resource.js";
import { CheckField, Field } from "../../parts/field.js";
import { ErrorNote } from "../../parts/notice.js";
import { problemsOf } from "../../parts/schema_form.js";
import { TrialCard } from "../../parts/trial_card.js";
import { KINDS } from "./kinds.js";
import { Verdict } from "./verdict.js";
import everywhere from "../../texts/en/policies.js";

const texts = everywhere.dry;
const QOS = ["0", "1", "2"];
const ENCODINGS = Object.entries(texts.encodings).map(([value, label]) => ({ value, label }));
const FIRST = { topic: "", payload: "", payload_encoding: "plain", qos: 0, retain: false, clientid: "dry_run",
  username: "" };

/**
 * @typedef {import("../../parts/stored_messages.js").SeenMessage} SeenMessage
 * @param {SeenMessage} row
 */
const messageOf = ({ topic, text, payload, qos, retain, from_clientid, from_username, pub_props }) => ({
  topic, qos, retain, clientid: from_clientid,
  ...(text === null ? { payload, payload_encoding: "base64" } : { payload: text }),
  ...(from_username === null ? {} : { username: from_username }),
  pub_props, user_property: pub_props["User-Property"] ?? {},
});

/**
 * @param {{ kind: import("./kinds.js").Kind, policy: import("./kinds.js").Policy,
 *   onFaults: (fields: Record<string, string>) => void }} props
 *   `onFaults`: called with each trial, with what is wrong with the settings by their paths.
 */
export const DryRun = ({ kind, policy, onFaults }) => {
  const { one, dryRun } = KINDS[kind];
  const [message, setMessage] = useState(FIRST);
  const [output, setOutput] = useState(/** @type {Api.ValidationVerdict | Api.TransformedMessage | null} */ (null));
  const trial = useAction(async (/** @type {object} */ tried) => {
    setOutput(null);
    onFaults({});
    const { name: _, topics, ...settings } = policy;
    const body = { [one]: { ...settings, ...(topics.length ? { topics } : {}) }, message: tried };
    try {
      setOutput(await api.post(dryRun, body));
    } catch (error) {
      onFaults(problemsOf(failureOf(error)).fields);
      throw error;
    }
  });
  const submit = submitting(() => {
    const { username, ...others } = message;
    trial.run(username ? message : others);
  });
  return html`
    <${TrialCard} title=${texts.title} hint=${texts.hint} typed=${texts.given} filter=${policy.topics[0] ?? "#"}
      form=${html`<${MessageForm} message=${message} onInput=${setMessage} onSubmit=${submit}
        isBusy=${trial.isRunning} />`}
      isBusy=${trial.isRunning} takesBytes onUse=${(/** @type {SeenMessage} */ row) => trial.run(messageOf(row))}>
      <${ErrorNote} error=${trial.error} />
      ${output && html`<${kind === "schema_validations" ? Verdict : Output} output=${output} />`}
    <//>`;
};

/**
 * @param {{ message: typeof FIRST, onInput: (message: typeof FIRST) => void, onSubmit: (event: Event) => void,
 *   isBusy: boolean }} props
 */
const MessageForm = ({ message, onInput, onSubmit, isBusy }) => {
  const set = (/** @type {string} */ name) => (/** @type {unknown} */ value) => onInput({ ...message, [name]: value });
  return html`
    <form onSubmit=${onSubmit}>
      <${Field} label=${texts.topic} value=${message.topic} onInput=${set("topic")} isRequired />
      <${Field} label=${texts.payload} value=${message.payload} onInput=${set("payload")} rows=${3} />
      <div class="beside">
        <${Field} label=${texts.encoding} value=${message.payload_encoding} options=${ENCODINGS}
          onInput=${set("payload_encoding")} />
        <${Field} label=${texts.client} value=${message.clientid} onInput=${set("clientid")} />
        <${Field} label=${texts.username} value=${message.username} onInput=${set("username")} />
        <${Field} label=${texts.qos} value=${String(message.qos)} options=${QOS}
          onInput=${(/** @type {string} */ qos) => set("qos")(Number(qos))} />
      </div>
      <${CheckField} label=${texts.retain} value=${message.retain} onInput=${set("retain")} />
      <button type="submit" disabled=${isBusy}>${texts.run}</button>
    </form>`;
};

/** @param {{ output: Api.TransformedMessage }} props */
const Output = ({ output }) => html`
  <h3>${texts.result}</h3>
  <dl class="facts">
    <dt>${texts.topic}</dt><dd class="code">${output.topic}</dd>
    <dt>${texts.qos}</dt><dd>${output.qos}</dd>
    <dt>${texts.retain}</dt><dd>${String(output.retain)}</dd>
    <dt>${texts.userProperties}</dt><dd class="code">${JSON.stringify(output.user_property)}</dd>
    <dt>${texts.payload}${output.payload_encoding && ` (${output.payload_encoding})`}</dt><dd><pre>
      ${output.payload}</pre></dd>
  </dl>`;
