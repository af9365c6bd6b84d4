// What a program with MQTT.js sees: `node talk.mjs '{"url", "version", "name", "ca"}'` prints one line of JSON.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connectAsync } from "mqtt";

const { url, version, name, ca } = JSON.parse(process.argv[2]);
const options = { protocolVersion: version, reconnectPeriod: 0, connectTimeout: 10_000 };
if (ca) options.ca = readFileSync(ca);

const connect = (role, more = {}) => connectAsync(url, { ...options, clientId: `${name}-${role}`, ...more });

const receiver = await connect("in");
const heard = [];
const waiting = [];
receiver.on("message", (topic, payload, packet) => {
  heard.push([topic.slice(name.length + 1), payload.toString().slice(0, 40), packet.qos, packet.retain]);
  waiting.shift()?.();
});
const next = () => new Promise((resolve) => waiting.push(resolve));

const sender = await connect("out", { will: { topic: `${name}/will`, payload: "gone", qos: 1, retain: false } });
for (const qos of [0, 1, 2]) {
  await receiver.subscribeAsync(`${name}/qos${qos}`, { qos });
  const arrived = next();
  await sender.publishAsync(`${name}/qos${qos}`, `at ${qos}`, { qos });
  await arrived;
}

await receiver.subscribeAsync(`${name}/large`, { qos: 1 });
let arrived = next();
await sender.publishAsync(`${name}/large`, "x".repeat(300_000), { qos: 1 });
await arrived;

await sender.publishAsync(`${name}/state`, "on", { qos: 1, retain: true });
arrived = next();
await receiver.subscribeAsync(`${name}/state`, { qos: 1 });
await arrived;
await sender.publishAsync(`${name}/state`, "", { qos: 0, retain: true });

await receiver.subscribeAsync(`${name}/will`, { qos: 1 });
const willArrived = new Promise((resolve) => {
  receiver.on("message", (topic) => topic.endsWith("/will") && resolve());
});
const closed = once(sender, "close");
sender.stream.destroy();
await closed;
await willArrived;

await receiver.endAsync();
console.log(JSON.stringify(heard.filter(([topic, payload]) => payload !== "")));
