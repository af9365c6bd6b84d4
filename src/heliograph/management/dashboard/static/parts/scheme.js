// @ts-check
/** Dark or light: as the system has it, until the user chooses. */
import { html, useState } from "../kernel/html.js";
import texts from "../texts/en/everywhere.js";

const KEY = "heliograph-scheme";
const root = document.documentElement;

const isDark = () => (root.dataset.scheme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark"
  : "light")) === "dark";

const kept = localStorage.getItem(KEY);
if (kept) root.dataset.scheme = kept;

export const SchemeButton = () => {
  const [dark, setDark] = useState(isDark());
  const turn = () => {
    root.dataset.scheme = dark ? "light" : "dark";
    localStorage.setItem(KEY, root.dataset.scheme);
    setDark(!dark);
    dispatchEvent(new Event("scheme"));
  };
  return html`<button type="button" class="plain" aria-label=${dark ? texts.light : texts.dark}
    title=${dark ? texts.light : texts.dark} onClick=${turn}>${dark ? "☀" : "☾"}</button>`;
};
