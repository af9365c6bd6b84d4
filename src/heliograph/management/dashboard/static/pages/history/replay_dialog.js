// @ts-check
/** Asks where stored messages are to be published again, and how fast. */
import { html } from "../../kernel/html.js";
import { api } from "../../kernel/api.js";
import { FormDialog } from "../../parts/form_dialog.js";
import texts from "../../texts/en/history.js";

const FIELDS = [
  { name: "target", label: texts.target, hint: texts.targetHint, isRequired: true },
  { name: "rate", label: texts.rate, type: "number", min: 1, max: 10000, isRequired: true },
  { name: "limit", label: texts.limit, type: "number", min: 1, max: 1000000, isRequired: true },
];

/**
 * @typedef {import("../../parts/form_dialog.js").Values} Values
 * @typedef {{ topic: string, clientid: string, database: string, start?: string, end?: string }} Selection
 * @param {{ selection: Selection, span: string, onClose: (isDone: boolean) => void }} props
 */
export const ReplayDialog = ({ selection, span, onClose }) => {
  const { topic, clientid, database, start = "", end = "" } = selection;
  const act = (/** @type {Values} */ { target, rate, limit }) => api.post("heliograph/message_replays", {
    topic, database, start, end, ...(clientid ? { clientid: [clientid] } : {}), target, rate: Number(rate),
    limit: Number(limit),
  });
  return html`
    <${FormDialog} title=${texts.replayTitle} intro=${texts.replayIntro(topic, span, clientid)} fields=${FIELDS}
      action=${texts.begin}
      initial=${{ target: "replay/${topic}", rate: 100, limit: 10000 }} act=${act} onClose=${onClose} />`;
};
