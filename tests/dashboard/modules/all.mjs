// All tests of the page's modules, in one process.
import "./browser.mjs";

for (const name of ["kernel", "live", "replay", "data_flow", "templates"]) await import(`./${name}.mjs`);
