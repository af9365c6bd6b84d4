// @ts-check
/** What the node knows of the language of rules: functions, columns of events, and what it says of a text. */
import { useEffect, useMemo, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { may } from "../kernel/session.js";
import { topicsOf, wordsOf } from "./sql_words.js";

/**
 * @typedef {Api.RuleFunctionShown} RuleFunction
 * @typedef {Api.RuleEventObject} RuleEvent
 * @typedef {{ functions: RuleFunction[], events: RuleEvent[] }} Language
 * @typedef {Api.RuleProblem} Problem
 * @typedef {Api.RulePart} Part
 * @typedef {Api.RuleExplanation} Explained
 */

const PREFIX = "$events/";
export const PUBLISHED = "$events/message_publish";
const PAUSE_MS = 350; // in typing, before the node is asked
/** @type {Language} */
const NOTHING = { functions: [], events: [] };
/** @type {Promise<Language> | null} */
let asked = null;

/** @returns {Promise<Language>} */
const load = () => {
  asked ??= Promise.all([api.get("heliograph/rule_functions"), api.get("rule_events")])
    .then(([functions, events]) => ({ functions, events }))
    .catch((error) => { asked = null; throw error; });
  return asked;
};

/** Functions and events; empty until they have come. @returns {Language} */
export const useLanguage = () => {
  const [language, setLanguage] = useState(NOTHING);
  useEffect(() => {
    let isWanted = true;
    load().then((found) => isWanted && setLanguage(found), () => {}); // the editor works without
    return () => { isWanted = false; };
  }, []);
  return language;
};

/** The events that a text reads: of topics, published messages. @param {Language} language @param {string} sql */
export const eventsOf = (language, sql) => {
  const topics = topicsOf(sql);
  const names = new Set(topics.map((topic) => (topic.startsWith(PREFIX) ? topic : PUBLISHED)));
  const found = language.events.filter(({ event }) => names.has(event));
  return found.length ? found : language.events.filter(({ event }) => event === PUBLISHED);
};

/** The words that a text may have. @param {Language} language @param {string} sql */
export const useWords = (language, sql) => {
  const columns = [...new Set(eventsOf(language, sql).flatMap((event) => event.columns))].join(" ");
  return useMemo(() => wordsOf(columns.split(" ").filter(Boolean), language.functions), [columns, language]);
};

/**
 * What the node says of a text, a moment after the last letter; until then what it said before.
 * @param {string} sql
 * @returns {{ explained: Explained | null, isCurrent: boolean }}
 */
export const useExplained = (sql) => {
  const [answer, setAnswer] = useState(/** @type {{ sql: string, explained: Explained } | null} */ (null));
  useEffect(() => {
    if (sql.trim() === "" || !may("rules:write")) return setAnswer(null);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.post("heliograph/rule_explain", { sql }, { signal: abort.signal })
        .then((explained) => abort.signal.aborted || setAnswer({ sql, explained }), () => {}); // saving says it then
    }, PAUSE_MS);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [sql]);
  return { explained: answer?.explained ?? null, isCurrent: answer?.sql === sql };
};
