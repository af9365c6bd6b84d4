// @ts-check
/** Which subscription a message came by. */

/** The filter of a shared subscription, without the name of its group. @param {string} filter */
const plain = (filter) => (filter.startsWith("$share/") ? filter.split("/").slice(2).join("/") : filter);

/**
 * Whether a topic matches a filter.
 * @param {string} filter
 * @param {string} topic
 */
export const matches = (filter, topic) => {
  const wanted = plain(filter).split("/");
  const steps = topic.split("/");
  if (topic.startsWith("$") && (wanted[0] === "+" || wanted[0] === "#")) return false;
  for (const [index, step] of wanted.entries()) {
    if (step === "#") return true;
    if (index >= steps.length || (step !== "+" && step !== steps[index])) return false;
  }
  return wanted.length === steps.length;
};
