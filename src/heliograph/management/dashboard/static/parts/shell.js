// @ts-check
/** What surrounds every page: the menu, who has logged in, whether the stream of live values is there. */
import { html, useEffect, useErrorBoundary, useState } from "../kernel/html.js";
import { useRoute } from "../kernel/router.js";
import { logOut, may, useSession } from "../kernel/session.js";
import { useLiveState } from "../kernel/live.js";
import { failureOf, useAction } from "../kernel/resource.js";
import { GROUPS, HOME, PAGES } from "../pages/map.js";
import { ErrorNote, Loading, Notices, PageHead } from "./notice.js";
import { SchemeButton } from "./scheme.js";
import { TrialBar, TrialWatch } from "./trial.js";
import texts from "../texts/en/everywhere.js";

export const Shell = () => {
  const { user } = useSession();
  const route = useRoute();
  const [isOpen, setOpen] = useState(false);
  const out = useAction(logOut);
  useEffect(() => setOpen(false), [route.path]);
  const name = route.steps[0] ?? HOME;
  return html`
    <a class="skip" href="#main" onClick=${skip}>${texts.skip}</a>
    <header class="bar">
      <button type="button" class="plain menu-button" aria-expanded=${isOpen} aria-controls="menu"
        onClick=${() => setOpen(!isOpen)}>${texts.menu}</button>
      <a class="home" href=${`#/${HOME}`}><span class="mark" aria-hidden="true"></span>Heliograph</a>
      <span class="where" title=${texts.node}>${user?.node}</span>
      <${LiveSign} />
      <span class="who">${user?.name} <small>${user?.role}</small></span>
      <${SchemeButton} />
      ${user?.kind !== "api_key" && html`<button type="button" class="plain" onClick=${() => out.run()}>
        ${texts.logOut}</button>`}
    </header>
    <div class=${`body${isOpen ? " open" : ""}`}>
      <${Menu} name=${name} />
      <main id="main" tabindex="-1"><${TrialBar} page=${name} /><${ErrorNote} error=${out.error} />
        <${Page} key=${name} name=${name} route=${route} /></main>
    </div>
    <${Notices} />`;
};

/** @param {Event} event */
const skip = (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
};

/** @param {{ name: string }} props */
const Menu = ({ name }) => html`
  <nav id="menu" class="menu" aria-label=${texts.menu}>
    ${GROUPS.map((group) => {
      const pages = PAGES.filter((page) => page.group === group && page.title && may(page.scope));
      return pages.length > 0 && html`
        <section key=${group}><h2>${group}</h2><ul>
          ${pages.map((page) => html`<li key=${page.path}><a href=${`#/${page.path}`}
            aria-current=${page.path === name ? "page" : undefined}>${page.title}</a></li>`)}
        </ul></section>`;
    })}
  </nav>`;

/** @param {{ name: string, route: import("../kernel/router.js").Route }} props */
const Page = ({ name, route }) => {
  const page = PAGES.find(({ path }) => path === name);
  const [loaded, setLoaded] = useState(/** @type {{ View?: unknown, error?: unknown } | null} */ (null));
  const [failure, reset] = useErrorBoundary((error) => console.error(error));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isWanted = true;
    page?.load().then(
      (module) => isWanted && setLoaded({ View: module.default }),
      (error) => isWanted && setLoaded({ error }),
    );
    return () => { isWanted = false; };
  }, [page, turn]);
  if (!page) return html`<${PageHead} title=${texts.noPage} /><p>${texts.noPageHint}</p>`;
  if (!may(page.scope)) return html`<${PageHead} title=${texts.notAllowed} /><p>
    ${texts.notAllowedHint(page.scope)}</p>`;
  if (failure) return html`<${PageHead} title=${texts.broken} />
    <${ErrorNote} error=${failureOf(failure)} again=${reset} />`;
  if (loaded?.error) return html`<${ErrorNote} error=${{ code: "UNREACHABLE" }} again=${() => setTurn(turn + 1)} />`;
  if (!loaded) return html`<${Loading} />`;
  return html`<${TrialWatch} /><${loaded.View} ...${page.props?.(route)} route=${route} />`;
};

const LiveSign = () => {
  const state = useLiveState();
  return html`<span class=${`live ${state}`} role="status">${texts.live[state]}</span>`;
};
