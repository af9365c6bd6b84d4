// @ts-check
/** The operations of the API, from its document: searched, read, tried. */
import { html, submitting, useState } from "../kernel/html.js";
import { ask, urlOf } from "../kernel/api.js";
import { useResource } from "../kernel/resource.js";
import { replaceQuery } from "../kernel/router.js";
import { Field } from "../parts/field.js";
import { Empty, Loaded, PageHead } from "../parts/notice.js";
import { Operation } from "./operations/operation.js";
import texts from "../texts/en/operations.js";

/**
 * @typedef {import("./operations/schemas.js").ApiDocument} ApiDocument
 * @typedef {{ path: string, method: string, tag: string, about: import("./operations/schemas.js").About }} Listed
 * @param {ApiDocument} document
 * @returns {Listed[]}
 */
const listed = (document) => Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, about]) =>
    ({ path, method, tag: about.tags?.[0] ?? "", about })));

/** @param {Listed} one @param {string} wanted */
const has = ({ path, method, about }, wanted) =>
  wanted.toLowerCase().split(/\s+/).every((word) => `${method} ${path} ${about.summary}`.toLowerCase().includes(word));

/** @param {{ route: import("../kernel/router.js").Route }} props */
export default function OperationsPage({ route }) {
  const document = useResource("document", (signal) =>
    /** @type {Promise<ApiDocument>} */ (ask("GET", "openapi.json", { signal })));
  const [search, setSearch] = useState(route.query.search ?? "");
  const area = route.query.area ?? "";
  const type = (/** @type {string} */ value) => {
    setSearch(value);
    replaceQuery({ area, search: value });
  };
  const isOff = document.error?.status === 404;
  return html`
    <${PageHead} title=${texts.title} />
    <p>${texts.intro} <a href=${urlOf("openapi.json")}>${texts.json}</a>, <a href=${urlOf("openapi.yaml")}>YAML</a>.</p>
    ${isOff ? html`<${Empty}>${texts.off}<//>` : html`<${Loaded} of=${document}>
      ${(/** @type {ApiDocument} */ data) => html`
      <form class="filters" role="search" onSubmit=${submitting(() => {})}>
        <${Field} label=${texts.search} value=${search} type="search" onInput=${type} />
        <${Field} label=${texts.area} value=${area} onInput=${(/** @type {string} */ value) =>
          replaceQuery({ area: value, search })}
          options=${[{ value: "", label: texts.all }, ...data.tags.map(({ name }) => name)]} />
      </form>
      <${Areas} document=${data} search=${search} area=${area} />`}<//>`}`;
}

/** @param {{ document: ApiDocument, search: string, area: string }} props */
const Areas = ({ document, search, area }) => {
  const found = listed(document).filter((one) => (!area || one.tag === area) && has(one, search));
  const tags = document.tags.filter(({ name }) => found.some(({ tag }) => tag === name));
  return html`
    <p role="status"><small>${texts.found(found.length)}</small></p>
    ${found.length === 0 && html`<${Empty}>${texts.none}<//>`}
    ${tags.map(({ name, description }) => html`
      <section class="card operations" key=${name} aria-label=${name}>
        <h2>${name}</h2><p class="quiet">${description}</p>
        ${found.filter((one) => one.tag === name).map((one) => html`
          <${Operation} key=${`${one.method} ${one.path}`} one=${one} document=${document} />`)}
      </section>`)}`;
};
