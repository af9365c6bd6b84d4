// @ts-check
/** The words of a rule: what each piece of a text is, and what could come where the caret stands. */

/**
 * @typedef {{ kind: "keyword" | "function" | "string" | "name" | "number" | "comment" | "word" | "other", text:
 *   string, start: number }} Piece
 */
/** @typedef {{ text: string, kind: "keyword" | "function" | "column", detail: string, about: string }} Word */

const KEYWORDS = ["SELECT", "FOREACH", "DO", "INCASE", "FROM", "WHERE", "AS", "AND", "OR", "NOT", "IN", "CASE", "WHEN",
  "THEN", "ELSE", "END"];
const LOWER = ["div", "mod", "true", "false"];
const PIECES = /(--[^\n]*)|('[^']*'?)|("[^"]*"?)|(\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|([A-Za-z][A-Za-z0-9_]*)/g;
const OFFERED_MAX = 8;
/** @type {Set<string>} */
const NONE = new Set();

/**
 * A text cut into pieces, without a gap.
 * @param {string} text @param {Set<string>} functions
 */
export const piecesOf = (text, functions) => {
  /** @type {Piece[]} */
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(PIECES)) {
    if (match.index > end) pieces.push({ kind: "other", text: text.slice(end, match.index), start: end });
    const isCalled = /^\s*\(/.test(text.slice(match.index + match[0].length, match.index + match[0].length + 9));
    pieces.push({ kind: kindOf(match, isCalled ? functions : NONE), text: match[0], start: match.index });
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ kind: "other", text: text.slice(end), start: end });
  return pieces;
};

/** @param {RegExpMatchArray} match @param {Set<string>} functions @returns {Piece["kind"]} */
const kindOf = ([word, comment, string, name, number], functions) => {
  if (comment) return "comment";
  if (string) return "string";
  if (name) return "name";
  if (number) return "number";
  if (KEYWORDS.includes(word.toUpperCase()) || LOWER.includes(word)) return "keyword";
  return functions.has(word) ? "function" : "word";
};

/**
 * The topics and events of FROM, as far as they are written.
 * @param {string} sql
 */
export const topicsOf = (sql) => {
  const from = /\bFROM\b([\s\S]*?)(?:\bWHERE\b|$)/i.exec(sql)?.[1] ?? "";
  return [...from.matchAll(/"([^"]*)"|'([^']*)'/g)].map((match) => match[1] ?? match[2]);
};

/**
 * What could stand where the caret is.
 * @param {string} text @param {number} caret @param {Word[]} words @param {boolean} isAsked Whether it was asked for
 *   with nothing typed.
 * @returns {{ start: number, words: Word[] }}
 */
export const offered = (text, caret, words, isAsked) => {
  const typed = /[A-Za-z][A-Za-z0-9_]*$/.exec(text.slice(0, caret))?.[0] ?? "";
  const start = caret - typed.length;
  const isInside = ["string", "name", "comment"].includes(pieceAt(text, start));
  if (isInside || text[start - 1] === "." || (typed.length < 2 && !isAsked)) return { start, words: [] };
  const wanted = typed.toLowerCase();
  const begins = words.filter((word) => word.text.toLowerCase().startsWith(wanted) && word.text !== typed);
  const holds = wanted.length > 1 ? words.filter((word) => word.text.toLowerCase().indexOf(wanted) > 0) : [];
  return { start, words: [...begins, ...holds].slice(0, OFFERED_MAX) };
};

/** @param {string} text @param {number} at */
const pieceAt = (text, at) => piecesOf(text, new Set()).find(({ start, text: piece }) => at > start
  && at < start + piece.length)?.kind ?? "other";

/**
 * All words of rules: columns first, then keywords and functions.
 * @param {string[]} columns @param {{ name: string, signature: string, result: string, summary: string }[]} functions
 * @returns {Word[]}
 */
export const wordsOf = (columns, functions) => [
  ...columns.map((text) => ({ text, kind: /** @type {const} */ ("column"), detail: "", about: "" })),
  ...[...KEYWORDS, ...LOWER].map((text) => ({ text, kind: /** @type {const} */ ("keyword"), detail: "", about: "" })),
  ...functions.map(({ name, signature, result, summary }) => ({
    text: name, kind: /** @type {const} */ ("function"), detail: `(${signature}) → ${result}`, about: summary,
  })),
];
