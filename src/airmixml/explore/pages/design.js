// The design page: controls that change keys, and what follows from them, part by part as the server has it.
import { stream } from "./server.js";
import { COLOURS, asked, byId, chart, fact, logAxis, make, notice, number, onScenario, percent, scenario, setKey } from "./shared.js";
import { fillControls, makeControls, markInvalid } from "./controls.js";

const SYMBOLS = [["circle", "●"], ["square", "■"], ["diamond", "◆"], ["cross", "✚"], ["star", "★"], ["triangle-up", "▲"]];
const state = { values: {}, statements: new Map(), refusals: new Map(), adversaries: [], accountants: [], exports: {}, form: "command", plan: null, accuracy: null };
const SHOWN = ["facts", "epsilon-table", "epsilon-chart", "options"];
const SLOW_MILLISECONDS = 150;
let controller = null, waiting = false, pending = false, changedAt = 0, source = null;

export function startDesign(choices) {
  makeControls(byId("controls"), choices, (key, value) => { changedAt = performance.now(); setKey(key, value); });
  onScenario(() => { changedAt ||= performance.now(); request(); });
  for (const tab of document.querySelectorAll(".export [role=tab]")) tab.addEventListener("click", () => showExport(tab.dataset.form));
  document.querySelector(".export").addEventListener("keydown", (event) => {
    const tabs = [...document.querySelectorAll(".export [role=tab]")], place = tabs.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (place >= 0 && step) { const next = tabs[(place + step + tabs.length) % tabs.length]; next.focus(); next.click(); }
  });
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(state.exports[state.form] ?? "");
    byId("copy").textContent = "Copied";
    setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
  });
  byId("save").addEventListener("click", save);
  request();
  return () => {};
}

function request() {
  const asks = asked(), from = asks.toml ?? asks.preset, isOther = from !== source;
  if (waiting && !isOther) { pending = true; return; } // the light parts of the last change are on their way: milliseconds
  if (isOther) state.name = asks.file ?? asks.preset; // until the server tells its own name
  source = from;
  pending = false;
  controller?.abort();
  controller = new AbortController();
  waiting = true;
  const started = changedAt || performance.now(), changed = changedAt > 0, own = controller;
  changedAt = 0;
  const seen = { scenario: false, problem: false, plan: false, account: false, late: false };
  // The light parts come within milliseconds of each other: drawn together, the page is painted once.
  let early = [];
  const slow = setTimeout(() => { if (own === controller) { takeEarly(); if (!seen.plan && !seen.problem) showComputing(seen); } }, SLOW_MILLISECONDS);
  const takeEarly = () => {
    const parts = early ?? [];
    early = null;
    clearTimeout(slow);
    for (const each of parts) take(each, seen, started, changed);
  };
  stream("api/design", asks, own.signal, (part) => {
    if (own !== controller) return;
    if (early === null) return take(part, seen, started, changed);
    early.push(part);
    if (part.part === "light") takeEarly();
  })
    .catch((problem) => {
      if (problem.name === "AbortError") return;
      notice(problem.message === "Failed to fetch" ? "The explorer has ended: start `airmix explore` again." : problem.message);
      if (own === controller && !seen.plan && !seen.problem) showVerdict("", "not computed", "");
    })
    .finally(() => { clearTimeout(slow); if (own === controller) arrived(); });
}

function arrived() {
  waiting = false;
  if (pending) { pending = false; request(); }
}

function take(part, seen, started, changed) {
  if (part.part === "scenario") {
    notice("");
    seen.scenario = true;
    state.noExport = "";
    Object.assign(state, { values: part.values, exports: part.exports, name: part.name, known: part.known, draw: "", unpromised: [], accuracy: null, plan: null });
    byId("air").value = part.air;
    fillControls(part.values);
    showExport(state.form);
    state.statements.clear();
    state.refusals.clear();
    window.dispatchEvent(new CustomEvent("airmix-values", { detail: part }));
  } else if (part.part === "problem") {
    if (!seen.scenario) state.plan = null; // that of the design before
    if (!seen.problem && !seen.plan) {
      showVerdict("bad", part.invalid ? "invalid value" : "not feasible", part.line);
      if (part.invalid) markInvalid(part.line);
      refuseExport(`Nothing to export: ${part.line}`);
    }
    seen.problem = true;
    if (!seen.account) clearAccount();
  } else if (part.part === "plan" || part.part === "options") {
    state.plan = part;
    seen.plan = true;
    if (!part.verdict.runs && !seen.account) clearAccount();
    state.accuracy = part.accuracy ?? state.accuracy;
    if (!seen.problem) {
      showVerdict(part.verdict.kind, part.verdict.word, part.verdict.text);
      refuseExport(part.verdict.runs ? "" : `Nothing to export: ${part.verdict.text}`);
    }
    showFacts();
    if (part.part === "options") showOptions(part.plan);
  } else if (part.part === "account") {
    seen.account = true;
    takeAccount(part);
  } else if (part.part === "light") {
    if (!seen.plan && !seen.problem) showComputing(seen);
    for (const id of SHOWN) byId(id).classList.toggle("stale", !(id === "facts" ? seen.plan : id.startsWith("epsilon") && seen.account));
    showTiming(started, changed);
    progressNote("slow accountants and better designs follow");
    arrived();
  } else if (part.part === "progress") {
    progressNote(`${part.stage}: ${part.done.toLocaleString("en")} of ${part.total.toLocaleString("en")}`);
  } else if (part.part === "late") {
    seen.late = true;
    if (!seen.plan && !seen.problem) showVerdict("", "not computed", `It takes too long here. Known: ${state.known}`);
    progressNote(`stopped after ${part.seconds} s; use airmix plan, or start a run`);
  } else if (part.part === "done") {
    progressNote("");
    if (!seen.late) for (const id of SHOWN) byId(id).classList.remove("stale");
  }
}

function showTiming(started, changed) {
  const milliseconds = performance.now() - started;
  window.airmixUpdates = [...(window.airmixUpdates ?? []), milliseconds];
  state.timing = changed ? `Updated in ${milliseconds < 1000 ? `${milliseconds.toFixed(0)} ms` : `${(milliseconds / 1000).toFixed(1)} s`}.` : "";
}

function progressNote(text) {
  byId("timing").replaceChildren(state.timing ?? "", text ? " " : "", text ? make("span", { class: "spinner", "aria-hidden": "true" }) : "", text ? ` ${text}` : "");
  byId("timing").dataset.busy = text ? "yes" : "no";
}

// What is on the page is of the design before: grey until the new one is known.
function showComputing(seen) {
  showVerdict("", "still computing", seen.scenario ? state.known : "");
  if (!seen.scenario) refuseExport("Computing …");
  for (const id of SHOWN) byId(id).classList.add("stale");
}

function showVerdict(kind, word, text) {
  byId("verdict").className = `verdict ${kind}`;
  const whom = kind === "good" ? (state.unpromised ?? []).map((name) => (name === "everyone" ? name : `the ${name}`)).join(" or ") : "";
  byId("verdict").replaceChildren(make("strong", {}, `${state.name ?? ""}: ${word}${text ? ". " : ""}`), text, whom ? `. No guarantee is stated against ${whom}.` : "");
}

function showFacts() {
  if (!state.plan) return;
  const facts = state.plan.cards.map((each) => [each.name, each.value, each.note, each.about]);
  if (state.plan.verdict.runs) facts.push([...accuracyFact(), "Test accuracy of the trained model, as the plan expects it; a run measures it."]);
  byId("facts").replaceChildren(...facts.map((each) => fact(...each)));
  byId("facts").classList.remove("stale");
}

function accuracyFact() {
  if (state.accuracy) return ["Expected accuracy", percent(state.accuracy.accuracy), state.accuracy.how];
  if (state.plan.part === "options") return ["Expected accuracy", "–", "start a run"];
  return ["Expected accuracy", make("span", { class: "spinner", role: "img", "aria-label": "computing" }), "being computed"];
}

function takeAccount(part) {
  state.adversaries = part.adversaries;
  state.accountants = part.all_accountants;
  state.about = part.about;
  for (const each of part.statements) state.statements.set(`${each.adversary} ${each.accountant}`, each.epsilon);
  for (const each of part.refusals) state.refusals.set(`${each.adversary} ${each.accountant}`, each.why);
  byId("delta-note").textContent = `delta = ${number(part.delta)}, ${part.adjacency} neighbours`;
  const target = state.values["privacy.epsilon"], names = state.adversaries.map((each) => each.name);
  const own = state.values["mixing.power"] === "dp" ? `${state.values["privacy.adversary"]} ${state.values["privacy.accountant"]}` : "";
  const head = make("tr", {}, make("th", { scope: "col", title: "How epsilon is computed: each is an upper bound, the smallest in a column holds." }, "Accountant"), names.map((name) => make("th", { scope: "col", class: "number", title: state.adversaries.find((each) => each.name === name).knows }, name)));
  byId("epsilon-table").tHead.replaceChildren(head);
  byId("epsilon-table").tBodies[0].replaceChildren(...state.accountants.map((by) => make("tr", {}, make("th", { scope: "row", title: part.about[by] }, by), names.map((name) => {
    const key = `${name} ${by}`, epsilon = state.statements.get(key), why = state.refusals.get(key);
    const classes = ["number", key === own && "own", epsilon > target * (1 + 1e-9) && "over"].filter(Boolean).join(" ");
    const inside = epsilon !== undefined ? number(epsilon) : why ? "–" : make("span", { class: "spinner", role: "img", "aria-label": "computing" });
    return make("td", { class: classes, title: why ?? (key === own ? "the target is set by this one" : null) }, inside);
  }))));
  const append = (attributes, title, epsilons) => {
    const cells = names.map((name) => make("td", { class: "number" + (epsilons[name] > target ? " over" : "") }, number(epsilons[name])));
    byId("epsilon-table").tBodies[0].append(make("tr", attributes, make("th", { scope: "row" }, title), cells));
  };
  if (part.row) append({ title: "the smallest epsilon that holds; –: no guarantee stated" }, `${part.row.name}, ${part.row.held}`, part.row.epsilons);
  for (const each of part.what_if) append({ class: "quiet", title: each.note ?? part.receivers }, `if ${each.name}`, each.epsilons);
  for (const id of ["epsilon-table", "epsilon-chart"]) byId(id).classList.remove("stale");
  const reasons = new Map(); // each once, in the words of `airmix account`
  for (const name of names) {
    const told = new Map(), stated = state.accountants.some((by) => !state.refusals.has(`${name} ${by}`));
    for (const by of state.accountants) if (state.refusals.has(`${name} ${by}`)) told.set(state.refusals.get(`${name} ${by}`), [...(told.get(state.refusals.get(`${name} ${by}`)) ?? []), by]);
    for (const [why, by] of told) {
      const line = !stated && told.size === 1 ? `: no guarantee stated (${why})` : ` by ${by.join(" and ")}: ${why}`;
      reasons.set(line, [...(reasons.get(line) ?? []), name]);
    }
  }
  state.unpromised = names.filter((name) => state.accountants.every((by) => state.refusals.has(`${name} ${by}`)));
  if (state.plan?.verdict.kind === "good" && byId("verdict").classList.contains("good")) showVerdict("good", state.plan.verdict.word, state.plan.verdict.text);
  if (part.draw) state.draw = part.draw;
  byId("refusals").replaceChildren(...(state.draw ? [make("li", {}, state.draw)] : []), ...[...reasons].map(([line, whom]) => make("li", {}, whom.join(" and ") + line)));
  showEpsilons(names, target);
}

// Where the target cannot be met there is nothing to certify.
function clearAccount() {
  byId("epsilon-table").tHead.replaceChildren();
  byId("epsilon-table").tBodies[0].replaceChildren(make("tr", {}, make("td", { class: "quiet" }, "Nothing is sent, so nothing is certified.")));
  byId("refusals").replaceChildren();
  byId("options").replaceChildren();
  if (!state.plan?.verdict.runs) byId("facts").replaceChildren();
  chart("epsilon-chart", [], { empty: "Nothing to show." });
}

function showEpsilons(names, target) {
  const traces = state.accountants.map((by, place) => {
    const told = names.filter((name) => state.statements.get(`${name} ${by}`) > 0);
    return {
      name: by, mode: "markers", type: "scatter", x: told.map((name) => state.statements.get(`${name} ${by}`)), y: told,
      marker: { size: 12, opacity: 0.85, color: COLOURS[place % COLOURS.length], symbol: SYMBOLS[place % SYMBOLS.length][0] },
      hovertemplate: `epsilon %{x:.4g} by ${by} against %{y}<extra></extra>`,
    };
  });
  const shapes = [{ type: "line", x0: target, x1: target, yref: "paper", y0: 0, y1: 1, line: { dash: "dot", width: 1.5, color: "#888" } }];
  // A legend of plotly's would be drawn anew with each change, which takes as long as the rest.
  byId("accountants").replaceChildren(...state.accountants.map((by, place) => make("span", { title: state.about[by] }, make("b", { style: `color:${COLOURS[place % COLOURS.length]}` }, SYMBOLS[place % SYMBOLS.length][1]), by)));
  chart("epsilon-chart", traces, { showlegend: false, margin: { l: 92, r: 12, t: 8, b: 40 }, shapes, xaxis: { ...logAxis([target, ...state.statements.values()], "epsilon"), automargin: false }, yaxis: { automargin: false, categoryorder: "array", categoryarray: [...names].reverse(), range: [-0.6, names.length - 0.4] } });
  byId("target-note").textContent = `(dotted: target ${number(target)})`;
}

function showOptions(plan) {
  const found = plan.recommended, content = [];
  if (found) {
    const points = 100 * found.rehearsal?.gained, error = 100 * found.rehearsal?.gained_error;
    const gain = found.rehearsal ? `${points > 0 ? "+" : ""}${points.toFixed(1)} ± ${error.toFixed(1)} points of accuracy (± standard error) on ${found.rehearsal.basis}${Math.abs(points) <= error ? ", within chance" : ""}` : "moments of all workers in one slot, the least noise at the same privacy";
    if (found.overrides.length) content.push(make("p", {}, `Recommended: ${gain}. `, make("button", { type: "button", onclick: () => use(Object.fromEntries(found.overrides.map((each) => each.split(/=(.*)/s).slice(0, 2)))) }, "Use")), make("pre", {}, found.overrides.join("\n")));
    else content.push(make("p", {}, "This design is what is recommended."));
    if (found.rehearsal?.reason) content.push(make("p", { class: "quiet" }, `${found.overrides.length ? "Reason" : "Kept"}: ${found.rehearsal.reason}.`));
  }
  if (plan.note) content.push(make("p", { class: "quiet" }, plan.note));
  if (plan.masks?.overrides?.length) content.push(make("p", {}, `${plan.masks.gain_db.toFixed(1)} dB less noise in the sum: `, make("code", {}, plan.masks.overrides.join(" "))));
  byId("options").replaceChildren(...(content.length ? content : [make("p", { class: "quiet" }, plan.feasible ? "No alternatives are searched for this learner and schedule." : "None: the target cannot be met.")]));
  byId("options").classList.remove("stale");
}

function use(overrides) { for (const [key, value] of Object.entries(overrides)) scenario.overrides[key] = value; changedAt = performance.now(); setKey(...Object.entries(overrides).at(-1)); }

function showExport(form) {
  state.form = form;
  for (const tab of document.querySelectorAll(".export [role=tab]")) { tab.setAttribute("aria-selected", String(tab.dataset.form === form)); tab.tabIndex = tab.dataset.form === form ? 0 : -1; }
  byId("export").textContent = state.noExport || (state.exports[form] ?? "");
  byId("copy").disabled = byId("save").disabled = Boolean(state.noExport);
  byId("export").setAttribute("aria-labelledby", `as-${form}`);
}

function refuseExport(why) {
  state.noExport = why;
  showExport(state.form);
}

function save() {
  const ending = { toml: "toml", command: "sh" }[state.form];
  const link = make("a", { href: URL.createObjectURL(new Blob([state.exports[state.form] ?? ""], { type: "text/plain" })), download: `${state.name}.${ending}` });
  link.click();
  URL.revokeObjectURL(link.href);
}
