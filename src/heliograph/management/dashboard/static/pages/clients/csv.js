// @ts-check
/** A file of values of all clients that are found, made page after page; the browser keeps its parts, no script. */
import { FIELDS } from "./columns.js";

const LIMIT = 1000;
const ROWS_MAX = 500_000;

/** A value for a table program, which must not take a text for a formula. @param {unknown} value */
const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** @param {unknown[]} row */
const line = (row) => `${row.map(cell).join(",")}\r\n`;

/**
 * @param {(page: { limit: number, cursor: string | undefined }) => Promise<Api.ClientCursorPage>} ask A page of
 *   clients, with the keys of `FIELDS`.
 * @param {(done: number) => void} tell How many rows are there.
 * @returns {Promise<{ file: Blob, rows: number, isCut: boolean }>}
 */
export const csvFile = async (ask, tell) => {
  const parts = [new Blob([line(FIELDS)])];
  let rows = 0;
  /** @type {string | undefined} */
  let cursor;
  do {
    const { data, meta } = await ask({ limit: LIMIT, cursor });
    parts.push(new Blob(data.map((row) => line(FIELDS.map((name) => row[/** @type {keyof typeof row} */ (name)])))));
    rows += data.length;
    cursor = meta.hasnext ? meta.cursor : undefined;
    tell(rows);
  } while (cursor && rows < ROWS_MAX);
  return { file: new Blob(parts, { type: "text/csv" }), rows, isCut: Boolean(cursor) };
};

/** Have the browser keep a file. @param {Blob} file @param {string} name */
export const keep = (file, name) => {
  const url = URL.createObjectURL(file);
  const anchor = Object.assign(document.createElement("a"), { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
};
