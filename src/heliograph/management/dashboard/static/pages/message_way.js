// @ts-check
/** What became of messages: found by id, topic, client and time, and each drawn from its publisher to its receivers. */
import { html } from "../kernel/html.js";
import { MessageList } from "./message_way/list.js";
import { MessageWay } from "./message_way/way.js";

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function MessageWayPage({ route }) {
  const id = route.steps[1] ?? "";
  if (!id) return html`<${MessageList} query=${route.query} />`;
  return html`<${MessageWay} key=${id} id=${id} asked=${route.query.client ?? ""} />`;
}
