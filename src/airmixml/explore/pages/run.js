// Runs: started here or elsewhere, their progress, curves and results. All of it is the server's: every tab sees the same.
import { ask } from "./server.js";
import { COLOURS, byId, chart, make, notice, number, percent, plain } from "./shared.js";

const ABOUT = {
  Mode: "A simulation draws its noise from the seed and protects nobody; protection draws it from a secret.",
  Epsilon: "The most that an adversary learns about one worker: smaller is more private.", Delta: "The probability that epsilon fails.",
  "Epsilon against the server": "The same against the server, which knows who sent in each slot.", "Epsilon of a row of the data": "The same of one row of the data, which several workers may hold.",
  SNR: "Signal-to-noise ratio of the inputs in a mixture, in the median slot.", Energy: "Radiated by all workers in all slots.", "Air time": "How long all slots and rounds last.",
  "Time to compute": "On this machine.", "Accuracy, final": "On test rows, after the last epoch or round.", Data: "Data set and number of workers.",
};
const chosen = new Map(), told = new Map(), colours = new Map();
let asked, values = null, timer = null, runs = [];

export function startRun(askedScenario) {
  asked = askedScenario;
  addEventListener("airmix-values", (event) => {
    values = event.detail.values;
    byId("run-name").textContent = event.detail.name;
    byId("run-what").textContent = `${values["workers.count"].toLocaleString("en")} workers, ${event.detail.slots}, ${values["learner.model"]}.`;
    byId("seed").value = event.detail.seed;
  });
  byId("start").addEventListener("submit", start);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !byId("run").hidden) refresh(); });
  return refresh;
}

async function start(event) {
  event.preventDefault();
  await attempt(async () => {
    const body = asked(), overrides = { ...body.overrides, seed: Number(byId("seed").value) };
    const { name } = await ask("api/runs", { ...body, overrides });
    chosen.set(name, true);
  });
}

async function act(name, action) { await attempt(() => ask(`api/runs/${encodeURIComponent(name)}/${action}`, {})); }

async function attempt(work) {
  try { notice(""); await work(); } catch (problem) { notice(problem.message); }
  await refresh();
}

async function refresh() {
  clearTimeout(timer);
  if (byId("run").hidden || document.hidden) return;
  let wait = 3000;
  try {
    runs = (await ask("api/runs")).runs;
    // All finished folders are asked about once: which can be compared, and which have a report.
    for (const run of runs.filter((each) => each.state === "finished")) await look(run);
    for (const run of runs) if (!isComparable(run)) chosen.set(run.name, false);
    for (const run of runs) if (!chosen.has(run.name)) chosen.set(run.name, run.state === "running" || [...chosen.values()].filter(Boolean).length < 4);
    const looked = runs.filter((run) => chosen.get(run.name));
    for (const run of looked) await look(run);
    if (runs.some((run) => run.state.startsWith("running"))) wait = 600;
    draw(looked.map((run) => told.get(run.name)));
  } catch (problem) {
    notice(problem.message === "Failed to fetch" ? "The explorer has ended: start `airmix explore` again; interrupted runs can then be resumed." : problem.message);
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, wait);
}

// Asks about a run, unless it is finished and known. One that cannot be read says so in its own row.
async function look(run) {
  const known = told.get(run.name);
  if (known?.state === "finished" && run.state === "finished" && known.changed === run.changed) return;
  told.set(run.name, await ask(`api/runs/${encodeURIComponent(run.name)}`).catch((problem) => {
    if (problem instanceof TypeError) throw problem; // the explorer has ended
    return { ...run, line: problem.message };
  }));
}

// Folders of plans and audits are listed too, but hold no result of a run.
function isComparable(run) { return run.state !== "unreadable" && (run.state !== "finished" || Boolean(told.get(run.name)?.facts)); }

function colour(name) {
  if (!colours.has(name)) colours.set(name, COLOURS[colours.size % COLOURS.length]);
  return colours.get(name);
}

function draw(looked) {
  const held = document.activeElement?.dataset?.keep;
  byId("runs").tBodies[0].replaceChildren(...(runs.length ? runs.map(row) : [make("tr", {}, make("td", { colspan: 4, class: "quiet" }, "No runs yet."))]));
  if (held) document.querySelector(`[data-keep="${CSS.escape(held)}"]`)?.focus();
  const line = (run, y) => ({ name: plain(run.name), x: y.map((_, place) => place + run.curve.first), y, mode: y.length < 2 ? "markers" : "lines", type: "scatter", marker: { size: 9, color: colour(run.name) }, line: { color: colour(run.name), width: 2 } });
  const scored = looked.filter((run) => run.curve?.score.length), lost = looked.filter((run) => run.curve?.loss.length);
  const counted = [...new Set(looked.filter((run) => run.curve?.score.length > 1).map((run) => run.curve.step))].join(" or ") || "epoch";
  const steps = { title: { text: counted, standoff: 6 }, rangemode: "tozero" };
  chart("accuracy-chart", scored.map((run) => ({ ...line(run, run.curve.score), hovertemplate: `%{y:.1%} after ${run.curve.step} %{x}<extra>${plain(run.name)}</extra>` })), { xaxis: steps, yaxis: { tickformat: ".0%", rangemode: "tozero" }, showlegend: true, empty: "No curve yet: it grows while a network trains." });
  // Rounds have no loss: that of a chart which will stay empty is hidden, not drawn.
  const losing = byId("loss-chart").closest("figure");
  losing.hidden = !lost.length && scored.length > 0 && scored.every((run) => run.state === "finished");
  if (!losing.hidden) chart("loss-chart", lost.map((run) => line(run, run.curve.loss)), { xaxis: steps, showlegend: false, empty: "No curve yet." });
  drawComparison(looked.filter((run) => run.facts));
}

function row(run) {
  const action = (word, does) => make("button", { type: "button", "data-keep": `${run.name}-${does}`, onclick: () => act(run.name, does) }, word);
  const box = make("input", { type: "checkbox", "aria-label": `Compare ${run.name}`, "data-keep": `${run.name}-compare`, onchange: () => { chosen.set(run.name, box.checked); refresh(); } });
  box.checked = Boolean(chosen.get(run.name));
  const running = run.state.startsWith("running");
  const far = running && run.total ? `${run.stage}: ${run.done.toLocaleString("en")} of ${run.total.toLocaleString("en")}` : running ? run.stage : "";
  return make("tr", { "data-run": run.name, "data-state": run.state },
    make("td", {}, isComparable(run) ? box : "", chosen.get(run.name) ? make("span", { class: "swatch", style: `background:${colour(run.name)}` }) : ""),
    make("th", { scope: "row" }, run.name),
    make("td", {}, make("span", { class: `state ${run.state}` }, run.state), running ? make("progress", { "aria-label": `Progress of ${run.name}`, ...(run.total ? { max: run.total, value: run.done } : {}) }) : "", make("div", { class: "quiet" }, far || run.line || told.get(run.name)?.line || "")),
    make("td", {}, make("div", { class: "bar" }, run.state === "running" && run.stage !== "interrupting" ? action("Cancel", "cancel") : "", run.resumable ? action("Resume", "resume") : "",
      told.get(run.name)?.report ? make("a", { href: `runs/${encodeURIComponent(run.name)}/report.html`, target: "_blank", rel: "noopener noreferrer" }, "report") : "")));
}

function drawComparison(finished) {
  const rows = [
    ["Data", (facts) => facts.data], ["Mode", (facts) => facts.mode], ["Accuracy, final", (facts) => percent(facts.accuracy)],
    ["Epsilon", (facts) => `${number(facts.epsilon)} (${facts.adversary}, ${facts.accountant})`], ["Delta", (facts) => number(facts.delta)], ["Epsilon against the server", (facts) => number(facts.server_epsilon)],
    ["Epsilon of a row of the data", (facts) => (facts.row_copies === 1 ? "that of its worker" : facts.row_epsilon === null ? "no guarantee stated" : `${number(facts.row_epsilon)} (${facts.adversary}), on up to ${facts.row_copies} workers`)],
    ["SNR", (facts) => (facts.snr_db === null ? "–" : `${facts.snr_db.toFixed(1)} dB`)], ["Energy", (facts) => facts.energy ?? "–"], ["Air time", (facts) => facts.air_time], ["Time to compute", (facts) => `${number(facts.seconds, 3)} s`],
  ];
  byId("compare").tHead.replaceChildren(make("tr", {}, make("th", { scope: "col" }, ""), finished.map((run) => make("th", { scope: "col" }, make("span", { style: `color:${colour(run.name)}` }, "■ "), run.name))));
  byId("compare").tBodies[0].replaceChildren(...(finished.length ? rows.map(([name, cell]) => make("tr", { title: ABOUT[name] }, make("th", { scope: "row" }, name), finished.map((run) => make("td", {}, cell(run.facts))))) : [make("tr", {}, make("td", { class: "quiet" }, "Choose finished runs to compare them."))]));
}
