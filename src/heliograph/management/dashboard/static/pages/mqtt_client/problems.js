// @ts-check
/** Why a connection fails, as far as a browser tells. */
import mqtt from "../../vendor/mqtt.mjs";
import { recordOf } from "../../kernel/own.js";
import texts from "../../texts/en/mqtt_client.js";

/** The addresses that the page's policy has kept it from. */
const blocked = new Set();
addEventListener("securitypolicyviolation", (event) => {
  if (event.effectiveDirective === "connect-src") blocked.add(originOf(event.blockedURI));
});

/** @param {string} url */
const originOf = (url) => {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
};

/** @param {number} code */
const named = (code) =>
  `${mqtt.ReasonCodes[/** @type {1} */ (code)] ?? texts.reason} (0x${code.toString(16).padStart(2, "0")})`;

/**
 * What to say of a connection to an address.
 * @param {string} url
 */
export const problemOf = (url) => {
  const unanswered = () => {
    if (blocked.has(originOf(url))) return texts.blocked(url);
    if (location.protocol === "https:" && url.startsWith("ws:")) return texts.mixed;
    return url.startsWith("wss:") ? texts.noCertificate(url, url.replace(/^wss/, "https")) : texts.unanswered(url);
  };
  return {
    unanswered,
    /** The broker has ended the connection. @param {number} code */
    ofReason: (code) => texts.ended(named(code)),
    /** @param {unknown} error */
    ofError: (error) => {
      const { code, message } = recordOf(error);
      if (typeof code === "number") return texts.connectRefused(named(code));
      if (typeof message !== "string" || !message || /websocket|connack timeout|stream/i.test(message)
        || error instanceof Event) return unanswered();
      return texts.failed(message);
    },
  };
};
