// @ts-check
/** English: a change of the configuration on trial. */
export default {
  onTrial: (/** @type {number} */ revision) => `Revision ${revision} of the configuration is on trial.`,
  goesBackIn: (/** @type {string} */ left) =>
    `It goes back in ${left} unless it is kept. Until then nothing else can be changed.`,
  goesBack: "The time is over: it goes back now.",
  keep: "Keep it",
  kept: (/** @type {number} */ revision) => `Revision ${revision} stays.`,
  goBackNow: "Go back now",
  applied: (/** @type {number} */ revision) => `Revision ${revision} holds.`,
  whatChanged: "What it changes",
};
