// @ts-check
/** English: schemas. */
export default {
  title: "Schemas",
  one: (/** @type {string} */ name) => `Schema ${name}`,
  all: "All schemas",
  add: "New schema",
  make: "Make the schema",
  save: "Save",
  saved: (/** @type {string} */ name) => `The schema ${name} is saved.`,
  name: "Name",
  nameHint: "By which rules, validations and transformations name it. It cannot be changed later.",
  type: "Type",
  /** @type {Record<string, string>} */
  types: { avro: "Avro", protobuf: "Protobuf", json: "JSON Schema", external_http: "External service" },
  description: "Description",
  source: "Source",
  more: "Actions",
  remove: "Delete",
  removeAction: (/** @type {string} */ name) => `Delete ${name}`,
  removeTitle: "Delete a schema",
  removeText: (/** @type {string} */ name) =>
    `Rules that name ${name} fail from then on. One that a validation or transformation uses is not deleted.`,
  removed: (/** @type {string} */ name) => `${name} is deleted.`,
  none:
    "There is no schema yet. By a schema payloads are decoded in rules, checked in validations and changed in " +
    "transformations. Sparkplug B is built in.",
  parameters: "The service",
  check: {
    title: "Check a payload",
    hint: "Against the schema as it is saved.",
    payload: "Payload",
    encoding: "The payload is written as",
    encodings: { plain: "text", base64: "base64" },
    message: "Message of the schema",
    run: "Check",
    fits: "It fits.",
    unfit: "It does not fit.",
    value: "What it stands for",
  },
  registries: {
    title: "Registries of others",
    none:
      "No registry of another system is known. A Confluent registry gives the schemas of Avro payloads that name " +
      "them by number.",
    url: "URL",
    add: "Add a registry",
    added: "The registry is added.",
    addTitle: "Add a Confluent registry",
    login: "It asks for a login",
    username: "User name",
    password: "Password",
    removeTitle: "Forget a registry",
    removeText: (/** @type {string} */ name) => `Rules can no longer decode by the schemas of ${name}.`,
  },
};
