// @ts-check
/** Numbers, sizes and times as people read them; the words are in texts. */
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const STEPS = /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]);

export const NONE = "–";

/** 1234567 as `1,234,567`. @param {number | null | undefined} value */
export const count = (value) => (value === null || value === undefined ? NONE : whole.format(value));

/**
 * A number of things: `1 ban`, `1,204 bans`.
 * @param {number | string} many The number, or as it is shown.
 * @param {string} one
 * @param {string} [several]
 */
export const counted = (many, one, several = `${one}s`) => {
  const shown = typeof many === "number" ? count(many) : many;
  return `${shown} ${shown === "1" ? one : several}`;
};

/** 1234567 as `1.2M`. @param {number | null | undefined} value */
export const compact = (value) => {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 10 ? String(Math.round(value * 10) / 10) : short.format(value);
};

/** A rate, as `12.5/s`. @param {number | null | undefined} value */
export const rate = (value) => (value === null || value === undefined ? NONE : `${compact(value)}/s`);

/** 1536 as `1.5 KiB`. @param {number | null | undefined} value */
export const bytes = (value) => {
  if (value === null || value === undefined) return NONE;
  let left = value, unit = 0;
  while (Math.abs(left) >= 1024 && unit < UNITS.length - 1) [left, unit] = [left / 1024, unit + 1];
  return `${left < 10 && unit > 0 ? left.toFixed(1) : Math.round(left)} ${UNITS[unit]}`;
};

/** 93784 as `1 d 2 h`. @param {number | null | undefined} seconds */
export const duration = (seconds) => {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const first = STEPS.findIndex(([length]) => seconds >= length);
  let left = seconds;
  const parts = STEPS.slice(first, first + 2).map(([length, name]) => {
    const many = Math.floor(left / length);
    left -= many * length;
    return many ? `${many} ${name}` : "";
  });
  return parts.filter(Boolean).join(" ");
};

/** @param {string | number | null | undefined} value RFC 3339, or milliseconds since the epoch. */
const dateOf = (value) => {
  if (value === null || value === undefined || value === "") return null;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? null : date;
};

/** A moment, in the browser's zone: `2026-01-31 14:05:09`. @param {string | number | null | undefined} value */
export const time = (value) => {
  const date = dateOf(value);
  if (!date) return NONE;
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60000);
  return local.toISOString().slice(0, 19).replace("T", " ");
};

/** How long ago a moment was, in seconds. @param {string | number | null | undefined} value */
export const secondsSince = (value) => {
  const date = dateOf(value);
  return date ? Math.max(0, (Date.now() - date.getTime()) / 1000) : null;
};

/** A text of at most so many characters. @param {string} text @param {number} [most] */
export const cut = (text, most = 80) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
