// @ts-check
/** Subscribes a client on its behalf. */
import { html, useState } from "../../kernel/html.js";
import { api, path } from "../../kernel/api.js";
import { cut } from "../../kernel/format.js";
import { ActDialog } from "../../parts/dialog.js";
import { CheckField, Field } from "../../parts/field.js";
import { tell } from "../../parts/notice.js";
import texts from "../../texts/en/client_subscriptions.js";

/** @param {{ id: string, onClose: (isDone: boolean) => void }} props */
export const SubscribeDialog = ({ id, onClose }) => {
  const [one, setOne] = useState({ topic: "", qos: "0", rh: "0", nl: false, rap: false });
  const put = (/** @type {string} */ name) => (/** @type {unknown} */ value) => setOne({ ...one, [name]: value });
  const act = async () => {
    const { topic, qos, rh, nl, rap } = one;
    const options = { qos: Number(qos), rh: Number(rh), nl: Number(nl), rap: Number(rap) };
    await api.post(path("clients/{clientid}/subscribe", id), { topic, ...options });
    tell(texts.added(cut(topic, 60)));
  };
  return html`
    <${ActDialog} title=${texts.addTitle(cut(id, 40))} action=${texts.addAct} act=${act} onClose=${onClose}>
      ${() => html`
      <p>${texts.addText}</p>
      <${Field} label=${texts.filter} value=${one.topic} onInput=${put("topic")} isRequired autocomplete="off" />
      <${Field} label=${texts.qos} value=${one.qos} onInput=${put("qos")} options=${["0", "1", "2"]} />
      <${Field} label=${texts.retainHandling} value=${one.rh} onInput=${put("rh")} options=${texts.rhs} />
      <${CheckField} label=${texts.noLocal} value=${one.nl} onInput=${put("nl")} />
      <${CheckField} label=${texts.retainAsPublished} value=${one.rap} onInput=${put("rap")} />`}<//>`;
};
