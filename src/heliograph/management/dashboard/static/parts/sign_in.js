// @ts-check
/** Who logs in: the first user by the token of the log, then by name and password, or by single sign-on. */
import { html, submitting, useEffect, useState } from "../kernel/html.js";
import { api, urlOf } from "../kernel/api.js";
import { logIn, session, setUp } from "../kernel/session.js";
import { useAction, useResource } from "../kernel/resource.js";
import { Dialog } from "./dialog.js";
import { Field } from "./field.js";
import { time } from "../kernel/format.js";
import { ErrorNote, tell, warn } from "./notice.js";
import texts from "../texts/en/sign_in.js";

const FIELDS = ["token", "username", "password"];

const load = (/** @type {AbortSignal} */ signal) => Promise.all([
  api.get("heliograph/set_up", {}, signal),
  api.get("sso/running", {}, signal).catch(() => /** @type {string[]} */ ([])),
]);

export const SignIn = () => {
  const start = useResource("start", load);
  const [needed, sso] = start.data ?? [{ needed: false }, []];
  useEffect(() => { document.title = `${texts.title} · Heliograph`; }, []);
  return html`
    <main class="alone">
      <h1><span class="mark" aria-hidden="true"></span>Heliograph</h1>
      ${needed.needed ? html`<${SetUpForm} />` : html`<${LogInForm} />`}
      ${!needed.needed && sso.includes("oidc") && html`<p><a class="button" href=${urlOf("sso/login/oidc")}>
        ${texts.singleSignOn}</a></p>`}
      <${ErrorNote} error=${start.error} again=${start.reload} />
    </main>`;
};

/** @param {{ user: import("../kernel/session.js").User | null }} props */
export const SignInAgain = ({ user }) => html`
  <${Dialog} title=${texts.again} canClose=${false} onClose=${() => {}}>
    <p>${texts.kept}</p>
    <${LogInForm} name=${user?.kind === "user" ? user.name : ""} />
    <p><button type="button" class="plain" onClick=${() => session.set({ state: "out", user: null })}>
      ${texts.another}</button></p>
  <//>`;

/** @param {{ name?: string }} props */
const LogInForm = ({ name = "" }) => {
  const [username, setUsername] = useState(name);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const { run, isRunning, error } = useAction(async () => {
    const { wrong_codes: wrong, failed_logins: failed } = await logIn(username, password, code);
    if (failed) tell(texts.failedLogins(failed.count, time(failed.since)));
    if (wrong) warn(texts.wrongCodes(wrong.count, time(wrong.since)));
  });
  const [needsCode, setNeedsCode] = useState(false);
  useEffect(() => { if (error?.code === "BAD_MFA_TOKEN") setNeedsCode(true); }, [error]);
  const submit = submitting(run);
  return html`
    <form class="stack" onSubmit=${submit}>
      <${Field} label=${texts.username} value=${username} onInput=${setUsername} isRequired autocomplete="username"
        autofocus=${!name} />
      <${Field} label=${texts.password} value=${password} onInput=${setPassword} isRequired type="password"
        autocomplete="current-password" autofocus=${Boolean(name)} />
      ${needsCode && html`<${Field} label=${texts.code} hint=${texts.codeHint} value=${code} onInput=${setCode}
        isRequired inputmode="numeric" autocomplete="one-time-code" />`}
      <${ErrorNote} error=${error && !(error.code === "BAD_MFA_TOKEN" && !code) ? error : null} />
      <button type="submit" class="main" disabled=${isRunning}>${texts.title}</button>
    </form>`;
};

const SetUpForm = () => {
  const [token, setToken] = useState("");
  const [username, setUsername] = useState("admin");
  const [password, setPassword] = useState("");
  const { run, isRunning, error } = useAction(() => setUp(token.trim(), username, password));
  const errorOf = (/** @type {string} */ name) => (error?.field === name ? error.message : "");
  const submit = submitting(run);
  return html`
    <form class="stack" onSubmit=${submit}>
      <p>${texts.first}</p>
      <${Field} label=${texts.token} hint=${texts.tokenHint} value=${token} onInput=${setToken} isRequired
        autocomplete="off" autofocus error=${errorOf("token")} />
      <${Field} label=${texts.username} value=${username} onInput=${setUsername} isRequired autocomplete="username"
        error=${errorOf("username")} />
      <${Field} label=${texts.newPassword} hint=${texts.passwordHint} value=${password} onInput=${setPassword}
        isRequired type="password" autocomplete="new-password"
        error=${errorOf("password")} />
      <${ErrorNote} error=${error && !FIELDS.includes(error.field ?? "") ? error : null} />
      <button type="submit" class="main" disabled=${isRunning}>${texts.begin}</button>
    </form>`;
};
