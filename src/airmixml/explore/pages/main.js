// Which page is shown, and where the scenario comes from.
import { ask, stream } from "./server.js";
import { asked as askedScenario, byId, changeScenario, make, notice, onScenario, redrawCharts, restoreScenario, scenario, setKey } from "./shared.js";
import { startDesign } from "./design.js";
import { startWatch } from "./watch.js";
import { startRun } from "./run.js";

const PAGES = ["design", "watch", "run"];
const started = {};

function show() {
  const asked = location.hash.slice(2), page = PAGES.includes(asked) ? asked : "design";
  for (const name of PAGES) byId(name).hidden = name !== page;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page[0].toUpperCase()}${page.slice(1)} · AirMixML explorer`;
  started[page]?.();
  redrawCharts();
}

function showSource() {
  const own = scenario.toml !== null;
  byId("preset").querySelector("option.own")?.remove();
  if (own) byId("preset").prepend(make("option", { value: "", class: "own" }, scenario.file));
  byId("preset").value = own ? "" : scenario.preset;
}

async function openFile(file) {
  if (!file) return;
  if (file.size > 1_000_000) return notice(`${file.name}: larger than 1 MB, so not a scenario`);
  notice("");
  const toml = await file.text(), line = await whyRefused({ toml, file: file.name, overrides: {} });
  if (line) return notice(line.startsWith(file.name) ? line : `${file.name}: ${line}`);
  changeScenario({ toml, file: file.name, overrides: {} });
}

// A file that is no scenario leaves the design on the page as it is.
function whyRefused(body) {
  const controller = new AbortController();
  return new Promise((resolve, reject) => {
    stream("api/design", { ...body, light: true }, controller.signal, (part) => {
      resolve(part.part === "problem" ? part.line : "");
      controller.abort();
    }).catch(reject);
  });
}

async function begin() {
  const choices = await ask("api/choices");
  restoreScenario();
  byId("preset").append(...choices.presets.map((each) => make("option", { value: each.name, title: each.about }, each.name)));
  byId("air").append(...choices.airs.map((each) => make("option", { value: each.name, title: each.about }, each.name)));
  byId("folder").textContent = choices.folder;
  byId("preset").addEventListener("change", (event) => event.target.value && changeScenario({ preset: event.target.value, toml: null, file: null, overrides: {} }));
  byId("air").addEventListener("change", (event) => setKey("air.preset", event.target.value));
  byId("reset").addEventListener("click", () => { notice(""); changeScenario({ overrides: {} }); });
  byId("open").addEventListener("click", () => byId("file").click());
  byId("file").addEventListener("change", async (event) => { await openFile(event.target.files[0]); event.target.value = ""; });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); openFile(event.dataTransfer.files[0]); });
  onScenario(showSource);
  showSource();
  started.design = startDesign(choices);
  started.watch = startWatch(askedScenario);
  started.run = startRun(askedScenario);
  addEventListener("hashchange", show);
  show();
}

addEventListener("unhandledrejection", (event) => { if (event.reason?.name !== "AbortError") notice(event.reason?.message ?? String(event.reason)); });
begin().catch((problem) => notice(problem.message === "Failed to fetch" ? "The explorer has ended: start `airmix explore` again." : problem.message));
