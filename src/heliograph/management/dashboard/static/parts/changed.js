// @ts-check
/** Two people who change the same thing: who saves last is told of the other's change before it is replaced. */
import { useRef } from "../kernel/html.js";
import { ApiError } from "../kernel/api.js";
import { differences, dotted } from "./schema/values.js";
import texts from "../texts/en/changed.js";

/**
 * Settings as this page has seen them last. `check` takes those that hold now, and fails with the names of what
 * somebody else has changed; once it has, these are the ones that were seen.
 * @param {unknown} loaded
 * @returns {{ check: (now: unknown) => void, saved: (now: unknown) => void }}
 */
export const useSeen = (loaded) => {
  const seen = useRef(loaded);
  return {
    check: (now) => {
      const names = differences(seen.current, now).map(({ path }) => dotted(path));
      seen.current = now;
      if (names.length > 0) throw new ApiError(409, "CHANGED", texts.changed(names));
    },
    saved: (now) => { seen.current = now; },
  };
};
