// @ts-check
/** Payloads that a user types: text, JSON or hex. */
import texts from "../../texts/en/mqtt_client.js";

export const FORMATS = [
  { value: "text", label: texts.formats.text }, { value: "json", label: texts.formats.json },
  { value: "hex", label: texts.formats.hex },
];

/**
 * The bytes of what was typed.
 * @param {string} typed
 * @param {string} format
 * @returns {Uint8Array}
 * @throws {Error} It is no JSON or hex; the message says what is wrong.
 */
export const bytesOf = (typed, format) => {
  if (format === "hex") return fromHex(typed);
  if (format === "json") {
    try {
      JSON.parse(typed);
    } catch (error) {
      throw new Error(texts.noJson(/** @type {Error} */ (error).message));
    }
  }
  return new TextEncoder().encode(typed);
};

/** @param {string} typed */
const fromHex = (typed) => {
  const digits = typed.replace(/[\s:]/g, "");
  if (!/^([0-9a-f]{2})*$/i.test(digits)) throw new Error(texts.noHex);
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
};
