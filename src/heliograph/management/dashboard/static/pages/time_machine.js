// @ts-check
/** The rule time machine: a rule run over stored messages, compared with another, started from then on. */
import { html } from "../kernel/html.js";
import { ErrorNote, PageHead } from "../parts/notice.js";
import { ReplayForm } from "./time_machine/form.js";
import { Progress } from "./time_machine/progress.js";
import { Result } from "./time_machine/result.js";
import { useReplay } from "./time_machine/replay.js";
import texts from "../texts/en/time_machine.js";

const FIELDS = ["rule", "sql", "compare", "from", "to", "engine"];

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function TimeMachinePage({ route }) {
  const replay = useReplay();
  const { error, shown } = replay;
  const isOfField = FIELDS.includes(error?.field ?? "");
  return html`
    <${PageHead} title=${texts.title} />
    <p class="quiet">${texts.about}</p>
    <${ReplayForm} key=${route.query.rule ?? ""} rule=${route.query.rule ?? ""} isRunning=${replay.isRunning}
      onRun=${replay.run} problem=${isOfField ? error : null} />
    <${ErrorNote} error=${isOfField ? null : error} again=${replay.again} />
    ${replay.isRunning && html`<${Progress} progress=${shown?.progress} onCancel=${replay.cancel} />`}
    ${shown?.error && html`<${ErrorNote} error=${shown.error} />`}
    ${shown?.result && html`<${Result} key=${shown.id} replay=${shown} onStarted=${replay.follow} />`}`;
}
