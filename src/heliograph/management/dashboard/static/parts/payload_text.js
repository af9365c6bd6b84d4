// @ts-check
/** What the bytes of a payload are as people read them: text, JSON, hexadecimal numbers. */

const CHUNK = 16384;
const ROW = 16;

/** @param {string} text Base64. */
export const bytesOf = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));

/**
 * A text in UTF-8; null where the bytes are none.
 * @param {Uint8Array} data
 * @param {boolean} isCut Whether they are the beginning of more, and may end in the middle of a character.
 */
export const textOf = (data, isCut) => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: isCut });
  } catch {
    return null;
  }
};

/** Text of JSON with indents; null where it is none. @param {string | null} text */
export const prettyJson = (text) => {
  if (text === null || !/^\s*[[{"\d\-tfn]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
};

/** Whether a text has characters that are not shown. @param {string} text */
export const hasControls = (text) => /[\u0000-\u0008\u000e-\u001f]/.test(text);

/** @param {Uint8Array} data */
export const hexOf = (data) => {
  const lines = [];
  for (let at = 0; at < data.length; at += ROW) {
    const row = [...data.subarray(at, at + ROW)];
    const numbers = row.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${numbers.padEnd(ROW * 3 - 1)}  ${letters}`);
  }
  return lines.join("\n");
};

/**
 * Pieces of a long text, cut behind lines where there are some: a browser lays out only those that are seen.
 * @param {string} text
 */
export const chunksOf = (text) => {
  const chunks = [];
  let at = 0;
  while (at < text.length) {
    const line = text.lastIndexOf("\n", at + CHUNK);
    const end = text.length - at <= CHUNK ? text.length : line > at ? line + 1 : at + CHUNK;
    chunks.push(text.slice(at, end).replace(/\n$/, ""));
    at = end;
  }
  return chunks;
};
