// @ts-check
/** What clients are looked for: as fields, as the page's address, and as the API's parameters. */
import { html, submitting, useState } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { own } from "../../kernel/own.js";
import { useResource } from "../../kernel/resource.js";
import { may } from "../../kernel/session.js";
import { Field } from "../../parts/field.js";
import texts from "../../texts/en/clients.js";

/** @type {Record<string, string>} */
const PARAMETERS = { id: "like_clientid", user: "like_username", address: "ip_address" };
const NAMES = ["by", "text", "state", "version", "listener"];

/**
 * The parameters of the API.
 * @param {Record<string, string>} query Of the page.
 */
export const wantedBy = ({ by = "id", text = "", state, version, listener }) => ({
  [own(PARAMETERS, by) ?? "like_clientid"]: text, conn_state: state, proto_ver: version, listener,
});

const loadListeners = async (/** @type {AbortSignal} */ signal) =>
  may("listeners:read") ? (await api.get("listeners", {}, signal)).map((one) => one.id) : [];

/** @param {{ query: Record<string, string>, onSearch: (query: Record<string, string>) => void }} props */
export const ClientFilters = ({ query, onSearch }) => {
  const [typed, setTyped] = useState(query);
  const listeners = useResource("listeners", loadListeners);
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) => setTyped({ ...typed, [name]: value });
  const submit = submitting(() => onSearch(Object.fromEntries(NAMES.map((name) => [name, typed[name] ?? ""]))));
  const any = { value: "", label: texts.any };
  return html`
    <form class="filters" role="search" onSubmit=${submit}>
      <${Field} label=${texts.searchBy} value=${typed.by ?? "id"} onInput=${put("by")} options=${texts.by} />
      <${Field} label=${own(texts.searchText, typed.by ?? "id") ?? texts.searchText.id} value=${typed.text ?? ""}
        onInput=${put("text")} type="search" />
      <${Field} label=${texts.state} value=${typed.state ?? ""} onInput=${put("state")}
        options=${[any, ...texts.states]} />
      <${Field} label=${texts.version} value=${typed.version ?? ""} onInput=${put("version")}
        options=${[any, ...texts.versions]} />
      <${Field} label=${texts.listener} value=${typed.listener ?? ""} onInput=${put("listener")}
        options=${[any, ...new Set([...(listeners.data ?? []), ...(typed.listener ? [typed.listener] : [])])]} />
      <button type="submit" class="main">${texts.search}</button>
    </form>`;
};
