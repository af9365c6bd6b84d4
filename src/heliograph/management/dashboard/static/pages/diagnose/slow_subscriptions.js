// @ts-check
/** The subscriptions whose messages take longest, and what counts as slow. */
import { html, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { duration, time } from "../../kernel/format.js";
import { link } from "../../kernel/router.js";
import { may } from "../../kernel/session.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { useSeen } from "../../parts/changed.js";
import { ActDialog, ConfirmDialog } from "../../parts/dialog.js";
import { CheckField, Field } from "../../parts/field.js";
import { Empty, ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { Table } from "../../parts/table.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/diagnose.js";

/** @type {import("../../parts/table.js").Column<Api.ListedSlowSubscription>[]} */
const COLUMNS = [
  { key: "clientid", title: texts.client, isHead: true, kind: "code", show: (row) =>
    html`<a href=${link("clients", row.clientid)}>${row.clientid}</a>` },
  { key: "topic", title: texts.topic, kind: "code" },
  { key: "timespan", title: texts.took, kind: "number", show: (row) => duration(row.timespan / 1000) },
  { key: "last_update_time", title: texts.last, show: (row) =>
    html`<span class="nowrap">${time(row.last_update_time)}</span>` },
  { key: "node", title: texts.node },
];

export const SlowSubscriptions = () => {
  const list = useResource("slow", (signal) => api.get("slow_subscriptions", {}, signal));
  const settings = useResource("slow settings", (signal) => may("config:read")
    ? api.get("slow_subscriptions/settings", {}, signal) : Promise.resolve(null));
  const [shown, setShown] = useState("");
  const close = (/** @type {string} */ done) => {
    setShown("");
    if (!done) return;
    tell(done);
    list.reload();
    settings.reload();
  };
  const isOn = settings.data?.enable ?? true;
  const mayChange = settings.data && may("config:write");
  const turnOn = useAction(async () => {
    await api.put("slow_subscriptions/settings", { ...settings.data, enable: true });
    close(texts.turnedOn);
  });
  return html`
    <header class="page-head">
      <p class="quiet">${settings.data && isOn
        && texts.looksFor(settings.data.threshold ?? "", settings.data.top_k_num ?? 0)}</p>
      <div class="actions">
        <button type="button" onClick=${list.reload}>${everywhere.refresh}</button>
        ${mayChange && html`<button type="button" onClick=${() => setShown("settings")}>
          ${texts.settings}</button>`}
        ${!!list.data?.data.length && may("metrics:write")
          && html`<button type="button" onClick=${() => setShown("clear")}>${texts.clear}</button>`}
      </div>
    </header>
    <${ErrorNote} error=${settings.error} again=${settings.reload} />
    <${ErrorNote} error=${turnOn.error} />
    <${Loaded} of=${list}>${(/** @type {Api.SlowSubscriptionList} */ data) => (isOn || data.data.length > 0 ? html`
      <${Table} caption=${texts.tabs.slow} columns=${COLUMNS} rows=${data.data} empty=${texts.noSlow}
        isBusy=${list.isLoading}
        rowKey="node clientid topic" />` : html`
      <${Empty}><p>${texts.off}</p>${mayChange
        ? html`<button type="button" class="main" disabled=${turnOn.isRunning} onClick=${() => turnOn.run()}>
          ${texts.enable}</button>` : html`<p>${texts.offForYou}</p>`}<//>`)}<//>
    ${shown === "settings" && html`<${Settings} settings=${settings.data} onClose=${close} />`}
    ${shown === "clear" && html`<${ConfirmDialog} title=${texts.clearTitle} text=${texts.clearText}
      action=${texts.clear}
      act=${() => api.del("slow_subscriptions")} onClose=${(/** @type {boolean} */ isDone) =>
        close(isDone ? texts.cleared : "")} />`}`;
};

const MEASURED = ["whole", "internal", "response"].map((value) => ({ value, label: texts.measured[value] }));

const FIELDS = ["threshold", "expire_interval", "top_k_num", "stats_type"];

/** @typedef {import("../../kernel/resource.js").Failure} Failure */

/** @param {{ settings: Api.SlowSubscriptionSettings, onClose: (done: string) => void }} props */
const Settings = ({ settings, onClose }) => {
  const [form, setForm] = useState(settings);
  const seen = useSeen(settings);
  const set = (/** @type {string} */ name) => (/** @type {unknown} */ value) =>
    setForm((old) => ({ ...old, [name]: value }));
  const act = async () => {
    seen.check(await api.get("slow_subscriptions/settings"));
    await api.put("slow_subscriptions/settings", { ...form, top_k_num: Number(form.top_k_num) });
  };
  const of = (/** @type {Failure | null} */ error, /** @type {string} */ name) =>
    (error?.field?.endsWith(name) ? error.message : undefined);
  return html`
    <${ActDialog} title=${texts.settings} action=${everywhere.save} act=${act}
      onClose=${(/** @type {boolean} */ isDone) => onClose(isDone ? texts.saved : "")}
      isShown=${(/** @type {Failure} */ error) => !FIELDS.some((name) => of(error, name))}>
      ${(/** @type {Failure | null} */ error) => html`
      <${CheckField} label=${texts.enable} value=${form.enable} onInput=${set("enable")} />
      <${Field} label=${texts.threshold} hint=${texts.thresholdHint} value=${form.threshold}
        onInput=${set("threshold")} error=${of(error, "threshold")} isRequired />
      <${Field} label=${texts.expires} hint=${texts.expiresHint} value=${form.expire_interval}
        onInput=${set("expire_interval")} error=${of(error, "expire_interval")} isRequired />
      <${Field} label=${texts.most} type="number" min="1" max="1000" value=${form.top_k_num}
        onInput=${set("top_k_num")} error=${of(error, "top_k_num")} isRequired />
      <${Field} label=${texts.measuredAs} options=${MEASURED} value=${form.stats_type} onInput=${set("stats_type")}
        error=${of(error, "stats_type")} />`}<//>`;
};
