// @ts-check
/**
 * A change of the configuration on trial: how long it still has, and the two ways to end that. It survives a reload:
 * the node knows of it. While it lasts nothing else can be changed, so every page shows it.
 */
import { html, useEffect, useState } from "../kernel/html.js";
import { api } from "../kernel/api.js";
import { duration } from "../kernel/format.js";
import { BEHIND, useLive } from "../kernel/live.js";
import { useAction } from "../kernel/resource.js";
import { link } from "../kernel/router.js";
import { may } from "../kernel/session.js";
import { createStore, useStore } from "../kernel/store.js";
import { ErrorNote, tell } from "./notice.js";
import texts from "../texts/en/trial.js";

const AGAIN_S = 2;

/** @typedef {{ revision: number, confirm_until: string | null }} Trial */

/** What the stream has told last. */
const latest = createStore(/** @type {Trial | null} */ (null));

/** The revision whose trial was ended here: the stream may tell of it for a moment more. */
const ended = createStore(-1);

/** Follows, for the bar, whether a change is on trial; a page has it beside what it follows itself. */
export const TrialWatch = () => {
  const now = useLive(may("config:read") ? BEHIND : "");
  useEffect(() => { if (now) latest.set(now); }, [now]);
  return null;
};

/** The change that is on trial as far as the stream has told; null for none. */
export const useTrial = () => {
  const trial = useStore(latest);
  const last = useStore(ended);
  return may("config:read") && trial?.confirm_until && trial.revision !== last ? trial : null;
};

/** The trial above every page but the one that has it itself. @param {{ page: string }} props */
export const TrialBar = ({ page }) => {
  const trial = useTrial();
  return trial && page !== "configuration"
    ? html`<div class="trial-bar"><${TrialNote} key=${trial.revision} trial=${trial} hasLink /></div>` : null;
};

/** Seconds until a moment, every second. @param {string | null} until @param {() => void} onOver */
const useSecondsLeft = (until, onOver) => {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!until) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [until]);
  const left = until ? Math.ceil((Date.parse(until) - now) / 1000) : null;
  useEffect(() => {
    if (left !== null && left < 0 && left % AGAIN_S === 0) onOver();
  }, [left]);
  return left;
};

const nothing = () => {};

/** @param {{ trial: Trial, reload?: () => void, hasLink?: boolean }} props `reload`: for a page that shows settings. */
export const TrialNote = ({ trial, reload = nothing, hasLink = false }) => {
  const { revision, confirm_until: until } = trial;
  const left = useSecondsLeft(until, reload);
  const end = () => {
    ended.set(revision);
    reload();
  };
  const keep = useAction(async () => {
    await api.post("heliograph/configuration/confirm");
    tell(texts.kept(revision));
    end();
  });
  const back = useAction(async () => {
    const body = { number: revision - 1, revision };
    tell(texts.applied((await api.post("heliograph/configuration/rollback", body)).revision));
    end();
  });
  if (left === null) return null;
  return html`
    <section class="note warn trial" aria-label=${texts.onTrial(revision)}>
      <p><strong>${texts.onTrial(revision)}</strong> <span role="timer">
        ${left > 0 ? texts.goesBackIn(duration(left)) : texts.goesBack}</span></p>
      <${ErrorNote} error=${keep.error ?? back.error} />
      <p class="actions">
        ${may("config:write") && html`
          <button type="button" class="main" disabled=${keep.isRunning} onClick=${() => keep.run()}>
            ${texts.keep}</button>
          <button type="button" disabled=${back.isRunning} onClick=${() => back.run()}>${texts.goBackNow}</button>`}
        ${hasLink && html`<a href=${link("configuration", "revisions", revision - 1)}>${texts.whatChanged}</a>`}</p>
    </section>`;
};
