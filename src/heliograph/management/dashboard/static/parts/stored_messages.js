// @ts-check
/** Stored messages of which one is chosen, to try something on it. */
import { html, submitting, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { bytes, cut, time } from "../kernel/format.js";
import { useAction } from "../kernel/resource.js";
import texts from "../texts/en/trial_card.js";
import { Field } from "./field.js";
import { ErrorNote } from "./notice.js";
import { bytesOf, textOf } from "./payload_text.js";
import { Table } from "./table.js";

const LIMIT = 20;
const LISTED_BYTES = 1 << 16; // of each payload of the list; the whole one comes when it is used
const USED_BYTES = 1 << 20;
const USER = "User-Property."; // what the name of a user property begins with

/** Properties that are no texts, though they are stored as such. @type {Record<string, (text: string) => unknown>} */
const READ = {
  "Payload-Format-Indicator": Number, "Message-Expiry-Interval": Number,
  "Correlation-Data": (text) => textOf(bytesOf(text), false) ?? undefined,
};

/**
 * A message of the API with its payload as `text`, which is null where it is none, and its properties as rules see
 * them (`pub_props`).
 * @typedef {ReturnType<typeof seen>} SeenMessage
 * @param {Api.StoredMessageObject} row
 */
const seen = (row) => {
  const data = bytesOf(row.payload ?? "");
  return { ...row, text: textOf(data, data.length < row.payload_bytes), pub_props: nested(row.properties) };
};

/** @param {Record<string, string>} properties */
const nested = (properties) => {
  const pairs = Object.entries(properties);
  const others = Object.fromEntries(pairs.filter(([name]) => !name.startsWith(USER)).map(([name, text]) =>
    [name, (READ[name] ?? String)(text)]));
  const user = pairs.filter(([name]) => name.startsWith(USER)).map(([name, text]) => [name.slice(USER.length), text]);
  return user.length === 0 ? others : { ...others, "User-Property": Object.fromEntries(user),
    "User-Property-Pairs": user.map(([key, value]) => ({ key, value })) };
};

/** @param {SeenMessage} row */
const whole = async (row) => (row.payload_bytes <= LISTED_BYTES ? row
  : seen(await api.get(path("heliograph/messages/{id}", row.id), { payload: "base64" })));

/**
 * @param {{ filter: string, isBusy: boolean, takesBytes?: boolean, onUse: (message: SeenMessage) => unknown }} props
 *   `takesBytes`: whether a payload may be anything, not only text.
 */
export const StoredMessages = ({ filter, isBusy, takesBytes = false, onUse }) => {
  const [topic, setTopic] = useState(filter);
  const [span, setSpan] = useState("3600");
  const [found, setFound] = useState(/** @type {SeenMessage[] | null} */ (null));
  const search = useAction(async () => {
    const start = new Date(Date.now() - Number(span) * 1000).toISOString();
    const { data } = await api.get("heliograph/messages", { topic, start, order: "newest", limit: LIMIT,
      payload: "base64", max_payload_bytes: LISTED_BYTES });
    setFound(data.slice(0, LIMIT).map(seen));
  });
  const use = useAction(async (/** @type {SeenMessage} */ row) => {
    const message = await whole(row);
    if (message.text === null && !takesBytes) throw new Error(texts.notText);
    await onUse(message);
  });
  const submit = submitting(() => search.run());
  const isUsable = (/** @type {SeenMessage} */ { text, payload_bytes }) =>
    (takesBytes || text !== null) && payload_bytes <= USED_BYTES;
  /** @type {import("./table.js").Column<SeenMessage>[]} */
  const columns = [...COLUMNS, { key: "use", title: "", kind: "actions", show: (row) => html`
    <button type="button" disabled=${isBusy || use.isRunning || !isUsable(row)} onClick=${() => use.run(row)}>
      ${texts.use}</button>` }];
  return html`
    <form class="filters" role="search" onSubmit=${submit}>
      <${Field} label=${texts.filter} value=${topic} onInput=${setTopic} isRequired />
      <${Field} label=${texts.since} value=${span} onInput=${setSpan}
        options=${Object.entries(texts.spans).map(([value, label]) => ({ value, label }))} />
      <button type="submit" disabled=${search.isRunning}>${texts.search}</button>
    </form>
    <${ErrorNote} error=${search.error ?? use.error} />
    ${found && html`<${Table} caption=${texts.caption} columns=${columns} rows=${found} rowKey="id"
      empty=${texts.none} />`}`;
};

/** @param {SeenMessage} row */
const shown = ({ text, payload_bytes: size }) => {
  if (size > USED_BYTES) return texts.tooLarge(bytes(size));
  return text === null ? texts.binary(bytes(size)) : cut(text, 80);
};

/** @type {import("./table.js").Column<SeenMessage>[]} */
const COLUMNS = [
  { key: "topic", title: texts.topic, kind: "code", isHead: true, show: ({ topic }) => cut(topic, 60) },
  { key: "stored_at", title: texts.at, show: ({ stored_at: at }) => time(at) },
  { key: "from_clientid", title: texts.client, kind: "code", show: (row) => cut(row.from_clientid ?? "", 40) },
  { key: "payload", title: texts.payload, kind: "code", show: shown },
];
