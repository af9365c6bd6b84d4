// @ts-check
/** Alarms that go on, in short. */
import { html } from "../kernel/html.js";
import { duration, secondsSince, time } from "../kernel/format.js";
import texts from "../texts/en/alarms.js";

/**
 * @param {{ alarms: Api.OpenAlarm[], act?: (alarm: Api.OpenAlarm) => unknown }} props `act` makes what can be
 *   done with one.
 */
export const AlarmList = ({ alarms, act }) => alarms.length === 0 ? html`<p class="quiet">${texts.none}</p>` : html`
  <ul class="alarms">${alarms.map((alarm) => html`
    <li key=${`${alarm.node} ${alarm.name}`}>
      <span class="badge ${alarm.severity === "critical" ? "bad" : "warn"}">
        ${texts.severities[alarm.severity] ?? alarm.severity}</span>
      <div><strong class="code">${alarm.name}</strong>
        <p>${alarm.message}</p>
        <p class="quiet"><span title=${time(alarm.activate_at)}>
          ${texts.since(duration(secondsSince(alarm.activate_at)))}</span> · ${alarm.node}</p>
        ${act && Object.keys(alarm.details).length > 0 && html`<details><summary>${texts.details}</summary><pre>
          ${JSON.stringify(alarm.details, null, 2)}</pre></details>`}
      </div>
      ${act && act(alarm)}
    </li>`)}</ul>`;
