// @ts-check
/** How the axes and lines of charts look: colours of the theme, lines that differ in more than colour. */

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 6]];
const DAY_S = 86400;

/** A colour of the theme, as it is now. @param {string} name */
const cssOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {number} number Of a line, from 0 on. */
export const strokes = (number) => ({
  stroke: cssOf(`--chart-${(number % 5) + 1}`),
  dash: DASHES[number % DASHES.length],
});

const WHOLE_STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/**
 * @param {(value: number) => string} show @param {boolean} isWhole Whether there is nothing between whole numbers.
 * @returns {import("uplot").Axis[]}
 */
export const axes = (show, isWhole) => {
  const font = `12px ${cssOf("--font")}`;
  const shared = {
    stroke: cssOf("--quiet"), font, grid: { stroke: cssOf("--line"), width: 1 },
    ticks: { stroke: cssOf("--line"), width: 1, size: 4 },
  };
  return [
    { ...shared, space: 70, size: 30, values: (_, at, __, ___, step) => at.map((one) => moment(one, step)) },
    { ...shared, size: 70, ...(isWhole ? { incrs: WHOLE_STEPS } : {}),
      values: (_, values) => values.map(show) },
  ];
};

/** @param {number} seconds Since the epoch. @param {number} step Between two labels. */
const moment = (seconds, step) => {
  const date = new Date(seconds * 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  if (step >= DAY_S || (step >= DAY_S / 4
    && date.getHours() === 0)) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const short = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return step < 60 ? `${short}:${two(date.getSeconds())}` : short;
};
