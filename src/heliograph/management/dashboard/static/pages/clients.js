// @ts-check
/** Clients: the list, and each of them. */
import { html } from "../kernel/html.js";
import { ClientList } from "./clients/list.js";
import { OneClient } from "./client/one.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function ClientsPage({ route }) {
  const id = route.steps[1];
  return id === undefined ? html`<${ClientList} route=${route} />`
    : html`<${OneClient} key=${id} id=${id} route=${route} />`;
}
