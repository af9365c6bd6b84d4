// @ts-check
/** A payload: as text, JSON or hexadecimal numbers, whichever fits; of a big one the beginning until more is wanted. */
import { html, useId, useMemo, useState } from "../kernel/html.js";
import { bytes } from "../kernel/format.js";
import { useAction } from "../kernel/resource.js";
import { ErrorNote } from "./notice.js";
import { bytesOf, chunksOf, hasControls, hexOf, prettyJson, textOf } from "./payload_text.js";
import texts from "../texts/en/payload.js";

const FIRST = 16384;
const VIEWS = /** @type {const} */ (["text", "json", "hex"]);

/**
 * What the bytes are in each view, null where that does not fit.
 * @typedef {"text" | "json" | "hex"} View
 * @param {Uint8Array} data @param {boolean} isCut
 */
const viewsOf = (data, isCut) => {
  const text = textOf(data, isCut);
  const json = prettyJson(text);
  /** @type {View} */
  const best = json !== null ? "json" : text !== null && !hasControls(text) ? "text" : "hex";
  return { text, json, hex: "", best };
};

/**
 * @param {{ base64: string, size: number, load?: () => Promise<string> }} props `base64` is the beginning of `size`
 *   bytes, or all; `load` gets all of them.
 */
export const Payload = ({ base64, size, load }) => {
  const [wanted, setWanted] = useState({ base64, size, all: "", isWhole: false });
  const { all, isWhole } = wanted.base64 === base64 && wanted.size === size ? wanted : { all: "", isWhole: false };
  const data = useMemo(() => bytesOf(all || base64), [all, base64]);
  const shown = useMemo(() => (isWhole ? data : data.subarray(0, FIRST)), [data, isWhole]);
  const isCut = shown.length < size;
  const views = useMemo(() => viewsOf(shown, isCut), [shown, isCut]);
  const [chosen, setChosen] = useState(/** @type {View | null} */ (null));
  const more = useAction(async () => {
    setWanted({ base64, size, all: data.length < size && load ? await load() : all, isWhole: true });
  });
  const view = chosen === null || views[chosen] === null ? views.best : chosen;
  const text = useMemo(() => (view === "hex" ? hexOf(shown) : views[view] ?? ""), [view, views, shown]);
  if (size === 0) return html`<p class="quiet">${texts.empty}</p>`;
  return html`
    <div class="payload">
      <div class="actions">
        <${Views} view=${view} views=${views} onChoose=${setChosen} />
        <span class="quiet">${isCut ? texts.beginning(bytes(shown.length), bytes(size)) : bytes(size)}</span>
        ${isCut && (load || data.length > shown.length) && html`<button type="button" disabled=${more.isRunning}
          onClick=${() => more.run()}>${texts.all(bytes(size))}</button>`}
        ${data.length === size && html`<button type="button" onClick=${() => save(data)}>${texts.save}</button>`}
      </div>
      <${ErrorNote} error=${more.error} />
      <pre class=${view} tabindex="0" aria-label=${texts.title}>
        ${chunksOf(text).map((chunk, index) => html`<div key=${index} class="chunk">${chunk}</div>`)}</pre>
    </div>`;
};

/** @param {{ view: View, views: ReturnType<typeof viewsOf>, onChoose: (view: View) => void }} props */
const Views = ({ view, views, onChoose }) => {
  const name = useId();
  return html`
    <fieldset class="choices"><legend>${texts.shownAs}</legend>
      ${VIEWS.map((one) => html`
        <label key=${one}><input type="radio" name=${name} value=${one} checked=${view === one}
          disabled=${views[one] === null}
          onChange=${() => onChoose(one)} /> ${texts.views[one]}</label>`)}
    </fieldset>`;
};

/** @param {Uint8Array<ArrayBuffer>} data */
const save = (data) => {
  const address = URL.createObjectURL(new Blob([data]));
  const link = Object.assign(document.createElement("a"), { href: address, download: "payload" });
  link.click();
  URL.revokeObjectURL(address);
};

/** The beginning of a payload in one line, for a cell of a table. @param {{ base64: string, size: number }} props */
export const PayloadLine = ({ base64, size }) => {
  const data = useMemo(() => bytesOf(base64), [base64]);
  const text = useMemo(() => textOf(data, data.length < size), [data, size]);
  if (size === 0) return html`<small>${texts.empty}</small>`;
  const shown = text === null || hasControls(text) ? [...data.subarray(0, 24)].map((one) =>
    one.toString(16).padStart(2, "0")).join(" ") : text;
  return html`<span class="line">${shown.slice(0, 120)}${data.length < size || shown.length > 120 ? "…" : ""}</span>`;
};
