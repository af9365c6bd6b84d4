// @ts-check
/** English: logging in. */
export default {
  title: "Log in",
  again: "Log in again",
  kept: "Your login has ended. The page behind this form stays as it is.",
  another: "Log in as another user",
  username: "User name",
  password: "Password",
  code: "Code",
  wrongCodes: (/** @type {number} */ count, /** @type {string} */ since) =>
    `Wrong codes since ${since}: ${count}. If they were not yours, change your password: another person has it.`,
  failedLogins: (/** @type {number} */ count, /** @type {string} */ since) =>
    `Wrong passwords since ${since}: ${count}. If they were not yours, another person tries to log in as you.`,
  codeHint: "Six digits of your authenticator app.",
  singleSignOn: "Log in with single sign-on",
  first: "There are no users yet. The node's log has a set-up token that makes the first administrator.",
  token: "Set-up token",
  tokenHint: "From the log of the node; it works once.",
  newPassword: "Password",
  passwordHint: "8 to 64 characters, with two of letters, digits and special characters.",
  begin: "Begin",
};
