// @ts-check
/** One's own login: the password and the second factor. */
import { html, useState } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { useResource } from "../kernel/resource.js";
import { loadSession, useSession } from "../kernel/session.js";
import { Dialog } from "../parts/dialog.js";
import { FormDialog } from "../parts/form_dialog.js";
import { Loaded, PageHead } from "../parts/notice.js";
import texts from "../texts/en/account.js";

const PASSWORD = { name: "password", label: texts.password, isRequired: true, type: "password",
  autocomplete: "current-password" };
const CODE = { name: "code", label: texts.code, hint: texts.codeHint, isRequired: true, autocomplete: "one-time-code",
  inputmode: "numeric" };
const OLD = { ...PASSWORD, name: "old_pwd", label: texts.oldPassword };
const NEW = { ...PASSWORD, name: "new_pwd", label: texts.newPassword, hint: texts.passwordHint,
  autocomplete: "new-password" };

export default function AccountPage() {
  const { user } = useSession();
  const name = user?.name ?? "";
  const users = useResource(name, (signal) => api.get("users", {}, signal));
  return html`
    <${PageHead} title=${texts.title} />
    <section class="card">
      <dl class="facts"><dt>${texts.name}</dt><dd>${name}</dd><dt>${texts.role}</dt><dd>${user?.role}</dd></dl>
    </section>
    ${user?.kind === "user" ? html`
      <${Loaded} of=${users}>${(/** @type {Api.UserAnswer[]} */ rows) => html`
        <${Own} name=${name} hasFactor=${rows.some(({ username, mfa }) => username === name
          && mfa !== "none")} />`}<//>`
      : html`<p>${texts.elsewhere}</p>`}`;
}

/** @param {{ name: string, hasFactor: boolean }} props */
const Own = ({ name, hasFactor }) => {
  const [open, setOpen] = useState("");
  const [enrolment, setEnrolment] = useState(/** @type {Api.EnrolmentAnswer | null} */ (null));
  const [codes, setCodes] = useState(/** @type {string[]} */ ([]));
  // What ends all logins ends this one too: the page then asks to log in again.
  const close = (/** @type {boolean} */ isDone) => {
    setOpen("");
    if (isDone) loadSession();
  };
  const begin = async (/** @type {object} */ values) =>
    setEnrolment(await api.post("heliograph/second_factor", values));
  const confirm = async (/** @type {object} */ values) => setCodes((await api.post("heliograph/second_factor/confirm",
    values)).recovery_codes);
  return html`
    <section class="card"><h2>${texts.password}</h2>
      <button type="button" onClick=${() => setOpen("password")}>${texts.changePassword}</button>
    </section>
    <section class="card"><h2>${texts.factor}</h2>
      <p>${hasFactor ? texts.hasFactor : texts.noFactor}</p>
      ${hasFactor ? html`<button type="button" class="danger" onClick=${() => setOpen("remove")}>
        ${texts.removeFactor}</button>`
        : html`<button type="button" onClick=${() => setOpen("begin")}>${texts.addFactor}</button>`}
    </section>
    ${open === "password" && html`<${FormDialog} title=${texts.changePassword} action=${texts.changePassword}
      fields=${[OLD, NEW]} intro=${texts.loginsEnd}
      act=${(/** @type {object} */ values) => api.post(path("users/{username}/change_pwd", name), values)}
      onClose=${close} />`}
    ${open === "remove" && html`<${FormDialog} title=${texts.removeFactor} action=${texts.removeFactor}
      fields=${[PASSWORD, CODE]} intro=${texts.loginsEnd}
      act=${(/** @type {object} */ values) => api.post("heliograph/second_factor/remove", values)} onClose=${close} />`}
    ${open === "begin" && html`<${FormDialog} title=${texts.addFactor} action=${texts.go} fields=${[PASSWORD]}
      intro=${texts.passwordOnceMore}
      act=${begin} onClose=${(/** @type {boolean} */ isDone) => setOpen(isDone ? "scan" : "")} />`}
    ${open === "scan" && enrolment && html`<${FormDialog} title=${texts.scan} action=${texts.confirm} fields=${[CODE]}
      intro=${html`<${Scan} of=${enrolment} />`}
      act=${confirm} onClose=${(/** @type {boolean} */ isDone) => setOpen(isDone ? "codes" : "")} />`}
    ${open === "codes" && html`<${Dialog} title=${texts.recovery} onClose=${() => close(true)}>
      <p>${texts.recoveryText}</p><pre>${codes.join("\n")}</pre>
      <footer><button type="button" class="main" onClick=${() => close(true)}>${texts.kept}</button></footer>
    <//>`}`;
};

/** @param {{ of: Api.EnrolmentAnswer }} props */
const Scan = ({ of }) => html`
  ${texts.scanText}<br />
  <img class="qr" alt=${texts.qr} src=${`data:image/svg+xml,${encodeURIComponent(withNamespace(of.qr_svg))}`} /><br />
  ${texts.typeInstead} <code>${of.secret}</code>`;

/** A picture of its own, and no part of the page, needs it. @param {string} svg */
const withNamespace = (svg) => svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ');
