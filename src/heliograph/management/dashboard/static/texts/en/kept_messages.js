// @ts-check
/** English: what lists of retained and of delayed messages share. */
export default {
  topic: "Topic",
  client: "Client id",
  username: "User name",
  qos: "QoS",
  size: "Size",
  payload: "Payload",
  actions: "Actions",
  show: "Show",
  tooLarge: "Its payload is above 1 MiB and is not shown here.",
  id: "Message id",
};
