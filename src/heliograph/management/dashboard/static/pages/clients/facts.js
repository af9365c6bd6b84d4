// @ts-check
/** Facts of clients as people read them, by the kinds and units of their declaration. */
import { bytes, count, duration, NONE, time } from "../../kernel/format.js";
import { isRecord } from "../../kernel/own.js";
import texts from "../../texts/en/client.js";
import { FACTS } from "./declared.js";

/** @typedef {keyof Api.ClientObject} Name */

/** @param {Name} name @returns {(client: Api.ClientObject) => string} */
export const shownFact = (name) => (client) => {
  const { kind, unit } = FACTS[name];
  const value = client[name];
  if (typeof value === "boolean") return value ? texts.yes : texts.no;
  if (typeof value === "number") return unit === "bytes" ? bytes(value) : unit === "s" ? duration(value) : count(value);
  if (isRecord(value)) return Object.entries(value).map(([key, one]) => `${key} = ${one}`).join(", ");
  return kind === "time" ? time(value) : value ?? "";
};

/**
 * A fact as a column of a list; of sessions that are on the disk only, numbers are not known.
 * @param {Name} name
 * @param {Partial<import("../../parts/table.js").Column<Api.ClientObject>>} [more] What it has otherwise.
 * @returns {import("../../parts/table.js").Column<Api.ClientObject>}
 */
export const factColumn = (name, more) => {
  const { title, kind } = FACTS[name];
  const isNumber = kind === "integer";
  return { key: name, title, kind: isNumber ? "number" : kind === "time" ? "time" : "text",
    show: (row) => (isNumber && row.asleep ? NONE : shownFact(name)(row)), ...more };
};
