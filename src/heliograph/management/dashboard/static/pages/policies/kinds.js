// @ts-check
/** What the two kinds of policies differ in: where the API and the configuration have them. */
import { path } from "../../kernel/api.js";

/**
 * @typedef {"schema_validations" | "message_transformations"} Kind
 * @typedef {Api.ValidationObject | Api.TransformationObject} Policy
 */

/** What is counted of each. */
export const COUNTED = /** @type {const} */ (["matched", "succeeded", "failed"]);

/**
 * What the stream tells of all, by their names.
 * @param {Api.ValidationsEvent | Api.TransformationsEvent | undefined} event
 */
export const rowsOf = (event) => event && ("schema_validations" in event ? event.schema_validations
  : event.message_transformations);

/**
 * @type {Record<Kind, {
 *   one: string, page: string, place: string[],
 *   path: "schema_validations/validation/{name}" | "message_transformations/transformation/{name}",
 *   dryRun: "heliograph/schema_validations/dryrun" | "message_transformations/dryrun",
 *   empty: Partial<Api.ValidationObject & Api.TransformationObject>,
 * }>}
 */
export const KINDS = {
  schema_validations: {
    one: "validation", page: "schema_validation", place: ["schema_validation", "validations", "*"],
    path: "schema_validations/validation/{name}", dryRun: "heliograph/schema_validations/dryrun",
    empty: { strategy: "all_pass", failure_action: "drop", checks: [{ type: "sql", sql: "" }] },
  },
  message_transformations: {
    one: "transformation", page: "message_transformation", place: ["message_transformation", "transformations", "*"],
    path: "message_transformations/transformation/{name}", dryRun: "message_transformations/dryrun",
    empty: { failure_action: "ignore", operations: [{ key: "", value: "" }], payload_decoder: { type: "none" },
      payload_encoder: { type: "none" } },
  },
};

/** The address of one of them. @param {Kind} kind @param {string} name */
export const placeOf = (kind, name) => path(KINDS[kind].path, name);
