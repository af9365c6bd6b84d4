// @ts-check
/** The page begins: it finds out who is logged in, and shows the rest. */
import { html, render } from "./kernel/html.js";
import { session, loadSession, useSession } from "./kernel/session.js";
import { SignIn, SignInAgain } from "./parts/sign_in.js";
import { failureOf } from "./kernel/resource.js";
import { Shell } from "./parts/shell.js";
import { ErrorNote, Loading } from "./parts/notice.js";
import { createStore, useStore } from "./kernel/store.js";

const failure = createStore(/** @type {import("./kernel/resource.js").Failure | null} */ (null));

const begin = async () => {
  failure.set(null);
  try {
    await loadSession();
  } catch (error) {
    failure.set(failureOf(error));
  }
};

const App = () => {
  const { state } = useSession();
  const error = useStore(failure);
  if (state === "unknown") return error ? html`<main class="alone">
    <${ErrorNote} error=${error} again=${begin} /></main>` : html`<${Loading} />`;
  if (state === "out") return html`<${SignIn} />`;
  return html`<${Shell} />${state === "lost" && html`<${SignInAgain} user=${session.get().user} />`}`;
};

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
begin();
