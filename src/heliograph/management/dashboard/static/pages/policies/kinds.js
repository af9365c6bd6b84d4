// @ts-check
/** What the two kinds of policies differ in: where the API and the configuration have them. */
import { path } from "../../kernel/api.js";

/** @typedef {"schema_validations" | "message_transformations"} Kind */

/** @type {Record<Kind, { one: string, page: string, place: string[], dryRun: string, empty: any }>} */
export const KINDS = {
  schema_validations: {
    one: "validation", page: "schema_validation", place: ["schema_validation", "validations", "*"],
    dryRun: "heliograph/schema_validations/dryrun",
    empty: { strategy: "all_pass", failure_action: "drop", checks: [{ type: "sql", sql: "" }] },
  },
  message_transformations: {
    one: "transformation", page: "message_transformation", place: ["message_transformation", "transformations", "*"],
    dryRun: "message_transformations/dryrun",
    empty: { failure_action: "ignore", operations: [{ key: "", value: "" }], payload_decoder: { type: "none" },
      payload_encoder: { type: "none" } },
  },
};

/** The address of one of them. @param {Kind} kind @param {string} name */
export const placeOf = (kind, name) => `${kind}/${KINDS[kind].one}/${path`${name}`}`;
