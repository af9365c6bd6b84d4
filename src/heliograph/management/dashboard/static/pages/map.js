// @ts-check
/** All pages: where each is, what the menu calls it, which scope it needs, and its module. */
import texts from "../texts/en/menu.js";

const { groups, titles } = texts;

export const HOME = "overview";
export const GROUPS = [
  groups.watch, groups.messages, groups.processing, groups.access, groups.operation, groups.tools, groups.people,
];

/**
 * `props`: what the page gets beside `route`.
 * @typedef {import("../kernel/router.js").Route} Route
 * @typedef {{ path: string, title: string, group: string, scope: string, load: () => Promise<{ default: unknown }>,
 *   props?: (route: Route) => Record<string, string> }} PageEntry
 */

const integration = (/** @type {string} */ kind) => (/** @type {Route} */ { steps, query }) =>
  ({ kind, id: steps[1] ?? "", type: query.type ?? "" });
const policy = (/** @type {string} */ kind) => (/** @type {Route} */ { steps }) => ({ kind, name: steps[1] ?? "" });

// In the order of the menu. A page without a title is reached from others, and stands in no menu.
/** @type {PageEntry[]} */
export const PAGES = [
  { path: "overview", title: titles.overview, group: groups.watch, scope: "metrics:read",
    load: () => import("./overview.js") },
  { path: "node", title: "", group: groups.watch, scope: "metrics:read",
    load: () => import("./node.js") },
  { path: "clients", title: titles.clients, group: groups.watch, scope: "clients:read",
    load: () => import("./clients.js") },
  { path: "subscriptions", title: titles.subscriptions, group: groups.watch, scope: "clients:read",
    load: () => import("./subscriptions.js") },
  { path: "message_way", title: titles.messageWay, group: groups.watch, scope: "messages:read",
    load: () => import("./message_way.js") },
  { path: "alarms", title: titles.alarms, group: groups.watch, scope: "alarms:read",
    load: () => import("./alarms.js") },
  { path: "diagnose", title: titles.diagnose, group: groups.watch, scope: "metrics:read",
    load: () => import("./diagnose.js") },
  { path: "topics", title: titles.topics, group: groups.messages, scope: "messages:read",
    load: () => import("./topics.js") },
  { path: "retained", title: titles.retained, group: groups.messages, scope: "clients:read",
    load: () => import("./retained.js") },
  { path: "delayed", title: titles.delayed, group: groups.messages, scope: "clients:read",
    load: () => import("./delayed.js") },
  { path: "history", title: titles.history, group: groups.messages, scope: "messages:read",
    load: () => import("./history.js") },
  { path: "data_flow", title: titles.dataFlow, group: groups.processing, scope: "rules:read",
    load: () => import("./data_flow.js") },
  { path: "rules", title: titles.rules, group: groups.processing, scope: "rules:read",
    load: () => import("./rules.js") },
  { path: "rule", title: "", group: groups.processing, scope: "rules:read",
    load: () => import("./rule.js") },
  { path: "time_machine", title: titles.timeMachine, group: groups.processing, scope: "rules:write",
    load: () => import("./time_machine.js") },
  { path: "connectors", title: titles.connectors, group: groups.processing, scope: "connectors:read",
    load: () => import("./integration/list.js"), props: () => ({ kind: "connectors" }) },
  { path: "connector", title: "", group: groups.processing, scope: "connectors:read",
    load: () => import("./integration/editor.js"), props: integration("connectors") },
  { path: "actions", title: titles.actions, group: groups.processing, scope: "actions:read",
    load: () => import("./integration/list.js"), props: () => ({ kind: "actions" }) },
  { path: "action", title: "", group: groups.processing, scope: "actions:read",
    load: () => import("./integration/editor.js"), props: integration("actions") },
  { path: "sources", title: titles.sources, group: groups.processing, scope: "sources:read",
    load: () => import("./integration/list.js"), props: () => ({ kind: "sources" }) },
  { path: "source", title: "", group: groups.processing, scope: "sources:read",
    load: () => import("./integration/editor.js"), props: integration("sources") },
  { path: "pipeline", title: titles.pipeline, group: groups.processing, scope: "pipeline:read",
    load: () => import("./pipeline.js") },
  { path: "schemas", title: titles.schemas, group: groups.processing, scope: "schemas:read",
    load: () => import("./schemas.js") },
  { path: "schema", title: "", group: groups.processing, scope: "schemas:read",
    load: () => import("./schema.js") },
  { path: "schema_validations", title: titles.validations, group: groups.processing, scope: "policies:read",
    load: () => import("./policies/list.js"), props: () => ({ kind: "schema_validations" }) },
  { path: "schema_validation", title: "", group: groups.processing, scope: "policies:read",
    load: () => import("./policies/page.js"), props: policy("schema_validations") },
  { path: "message_transformations", title: titles.transformations, group: groups.processing, scope: "policies:read",
    load: () => import("./policies/list.js"), props: () => ({ kind: "message_transformations" }) },
  { path: "message_transformation", title: "", group: groups.processing, scope: "policies:read",
    load: () => import("./policies/page.js"), props: policy("message_transformations") },
  { path: "authentication", title: titles.authentication, group: groups.access, scope: "authentication:read",
    load: () => import("./authentication.js") },
  { path: "mqtt_users", title: titles.mqttUsers, group: groups.access, scope: "authentication:read",
    load: () => import("./mqtt_users.js") },
  { path: "authorization", title: titles.authorization, group: groups.access, scope: "authorization:read",
    load: () => import("./authorization.js") },
  { path: "explain", title: titles.explain, group: groups.access, scope: "authorization:read",
    load: () => import("./explain.js") },
  { path: "bans", title: titles.bans, group: groups.access, scope: "clients:read",
    load: () => import("./bans.js") },
  { path: "listeners", title: titles.listeners, group: groups.operation, scope: "listeners:read",
    load: () => import("./listeners.js") },
  { path: "configuration", title: titles.configuration, group: groups.operation, scope: "config:read",
    load: () => import("./configuration/page.js") },
  { path: "backups", title: titles.backups, group: groups.operation, scope: "data:read",
    load: () => import("./backups.js") },
  { path: "mqtt_client", title: titles.mqttClient, group: groups.tools, scope: "listeners:read",
    load: () => import("./mqtt_client.js") },
  { path: "traces", title: titles.traces, group: groups.tools, scope: "traces:read",
    load: () => import("./traces.js") },
  { path: "api", title: titles.api, group: groups.tools, scope: "",
    load: () => import("./operations.js") },
  { path: "users", title: titles.users, group: groups.people, scope: "users:read",
    load: () => import("./users.js") },
  { path: "api_keys", title: titles.apiKeys, group: groups.people, scope: "api_keys:read",
    load: () => import("./api_keys.js") },
  { path: "account", title: titles.account, group: groups.people, scope: "own:write",
    load: () => import("./account.js") },
  { path: "audit", title: titles.audit, group: groups.people, scope: "audit:read",
    load: () => import("./audit.js") },
];
