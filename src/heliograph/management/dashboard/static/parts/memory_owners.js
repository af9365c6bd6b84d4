// @ts-check
/** Who holds the memory of a node. */
import { html } from "../kernel/html.js";
import { api, path } from "../kernel/api.js";
import { bytes } from "../kernel/format.js";
import { useResource } from "../kernel/resource.js";
import { Loaded } from "./notice.js";
import everywhere from "../texts/en/everywhere.js";
import texts from "../texts/en/memory_owners.js";

/** @param {{ node: string }} props */
export const MemoryOwners = ({ node }) => {
  const memory = useResource(node, (signal) => api.get(path("heliograph/nodes/{node}/memory", node), {}, signal));
  return html`
    <section class="card" aria-busy=${memory.isLoading}>
      <header class="page-head"><h2>${texts.title}</h2><button type="button" onClick=${memory.reload}>
        ${everywhere.refresh}</button></header>
      <${Loaded} of=${memory}>${(/** @type {Api.HeldMemory} */ data) => html`
        <p class="quiet">${texts.used(bytes(data.used), data.limit ? bytes(data.limit) : "")}${data.stage > 0
          && ` ${texts.stage(data.stage)}`}</p>
        <${Owners} held=${data.held} used=${data.used} />`}<//>
    </section>`;
};

/** @param {{ held: Record<string, number>, used: number }} props */
const Owners = ({ held, used }) => {
  const known = Object.values(held).reduce((sum, size) => sum + size, 0);
  const owners = [...Object.entries(held), ["other", Math.max(0, used - known)]]
    .filter(([, size]) => Number(size) > 0).sort((one, other) => Number(other[1]) - Number(one[1]));
  return html`<ul class="bars">${owners.map(([name, size]) => html`
    <li key=${name}><span class="quiet">${texts.owners[name] ?? name}</span>
      <meter min="0" max=${Math.max(1, used)} value=${size} aria-label=${texts.owners[name] ?? name}></meter>
      <strong>${bytes(Number(size))}</strong></li>`)}</ul>`;
};
