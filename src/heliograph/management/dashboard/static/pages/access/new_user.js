// @ts-check
/** A new user with what the user may do, in one step: what the node still needs for that is told first, and made. */
import { html, submitting, useState } from "../../kernel/html.js";
import { useAction, useResource } from "../../kernel/resource.js";
import { link } from "../../kernel/router.js";
import { Dialog } from "../../parts/dialog.js";
import { Field } from "../../parts/field.js";
import { ErrorNote, Loaded, tell } from "../../parts/notice.js";
import { addUser, loadAccess, rulesFor } from "./adding.js";
import everywhere from "../../texts/en/everywhere.js";
import texts from "../../texts/en/mqtt_users.js";

const CHOICES = [
  { value: "publish", label: texts.mayPublish },
  { value: "all", label: texts.mayBoth },
  { value: "rules", label: texts.mayRules },
];

/** @param {{ id: string | undefined, onDone: () => void, onClose: () => void }} props */
export const NewUserDialog = ({ id, onDone, onClose }) => {
  const access = useResource(`access ${id}`, (signal) => loadAccess(id, signal));
  const owner = access.data?.owner ?? "username";
  const [form, setForm] = useState({ name: "", password: "", choice: "publish", topics: "" });
  const user = { ...form, topics: form.topics || `\${${owner}}/#` };
  const put = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    setForm((/** @type {typeof form} */ old) => ({ ...old, [name]: value }));
  const { run, isRunning, error } = useAction(() => addUser(user, id, owner));
  const submit = submitting(async () => {
    if (!await run()) return;
    tell(texts.added(form.name));
    onDone();
    onClose();
  });
  const rules = rulesFor(user);
  const isOfName = error?.code === "ALREADY_EXISTS";
  const wrong = error?.field === "user_id" || isOfName ? error.message : "";
  return html`
    <${Dialog} title=${texts.add} onClose=${onClose} isWide>
      <form class="stack" onSubmit=${submit}>
        <${Field} label=${texts.owner[owner]} value=${form.name} onInput=${put("name")} isRequired autofocus
          autocomplete="off" error=${wrong} />
        <${Field} label=${texts.password} value=${form.password} onInput=${put("password")} isRequired type="password"
          autocomplete="new-password" />
        <fieldset class="terms"><legend>${texts.may}</legend>
          ${CHOICES.map(({ value, label }) => html`<label key=${value}>
          <input type="radio" name="may" checked=${form.choice === value}
            onChange=${() => put("choice")(value)} /> ${label}</label>`)}
          ${form.choice !== "rules" && html`<${Field} label=${texts.topics} hint=${texts.topicsHint}
            value=${user.topics} onInput=${put("topics")} isRequired spellcheck="false" />`}
        </fieldset>
        <${Loaded} of=${access}>${(/** @type {{ hasSource: boolean }} */ { hasSource }) => html`
          ${(!id || rules.length > 0) && html`<div class="note"><p><strong>${texts.also}</strong></p><ul>
            ${!id && html`<li>${texts.alsoAuthenticator}</li>`}
            ${rules.length > 0 && !hasSource && html`<li>${texts.alsoSource}</li>`}
            ${rules.length > 0 && html`<li>${texts.alsoRules(form.name,
              rules.map(({ permission, action, topic }) =>
              `${permission} ${action} ${topic}`))} ${texts.alsoDollar}</li>`}</ul></div>`}`}<//>
        <${ErrorNote} error=${wrong ? null : error} />
        <footer><a class="button" href=${link("explain")}>${texts.check}</a><button type="button" onClick=${onClose}>
          ${everywhere.cancel}</button>
          <button type="submit" class="main" disabled=${isRunning || !access.data}>${texts.add}</button></footer>
      </form>
    <//>`;
};
