// The status page of a deployed server: asks for its state every second.

import { ask } from "./server.js";
import { byId, fact, make, notice, percent } from "./shared.js";

const SECONDS = 1;
const MOST_ROWS = 500;

function share(value) {
  return `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
}

function seconds(value) {
  if (value === null) return "never";
  return value < 1 ? "now" : value < 120 ? `${Math.round(value)} s ago` : `${Math.round(value / 60)} min ago`;
}

function verdict(status) {
  const over = status.phase === "over", lost = status.alive < status.fewest;
  const what = status.failure ? `Ended: ${status.failure}` : over ? "All rounds are done" : `Round ${status.round}${status.attempt ? `, attempt ${status.attempt}` : ""}: ${status.phase}`;
  byId("verdict").className = `verdict ${status.failure || (lost && !over) ? "bad" : over ? "good" : ""}`;
  const more = lost && !over ? ` A round needs ${status.fewest} workers.` : "";
  byId("verdict").replaceChildren(make("strong", {}, `${what}.`), more);
}

function curve(status) {
  const known = status.accuracy.map((each, round) => [round, each]).filter(([, each]) => each !== null);
  const width = byId("accuracy").clientWidth || 600;
  const x = (round) => 34 + ((width - 40) * (round + 0.5)) / Math.max(status.rounds_planned, 1), y = (value) => 138 - 112 * value;
  const lines = [0, 0.5, 1].flatMap((value) => [
    make("line", { x1: 34, x2: width - 6, y1: y(value), y2: y(value), stroke: "var(--line)" }),
    make("text", { x: 28, y: y(value) + 4, "text-anchor": "end", "font-size": 11, fill: "var(--quiet)" }, `${100 * value}`),
  ]);
  const path = known.map(([round, each], place) => `${place ? "L" : "M"}${x(round)} ${y(each)}`).join(" ");
  const points = known.flatMap(([round, each]) => [
    make("circle", { cx: x(round), cy: y(each), r: 4, fill: "var(--accent)" }),
    make("text", { x: x(round), y: y(each) - 8, "text-anchor": "middle", "font-size": 11, fill: "var(--ink)" }, percent(each)),
  ]);
  byId("accuracy").replaceChildren(...lines, make("path", { d: path || "M0 0", fill: "none", stroke: "var(--accent)", "stroke-width": 2 }), ...points);
}

function state(each) {
  if (each.heard_seconds === null) return "not seen yet";
  if (each.workers > 1) return `${each.alive} of ${each.workers} alive`;
  if (!each.alive) return "silent";
  return each.waited_for ? "working" : "answered";
}

function rows(status) {
  const shown = [...status.endpoints].sort((a, b) => a.alive / a.workers - b.alive / b.workers).slice(0, MOST_ROWS);
  const places = new Map(status.endpoints.map((each, place) => [each.name, place]));
  shown.sort((a, b) => places.get(a.name) - places.get(b.name));
  byId("endpoints").tBodies[0].replaceChildren(...shown.map((each) => make(
    "tr", { "data-name": each.name, "data-alive": each.alive },
    make("th", { scope: "row" }, each.name),
    make("td", { class: each.alive < each.workers ? "over" : "" }, state(each)),
    make("td", { class: "number" }, share(each.spent)),
    make("td", { class: "number" }, seconds(each.heard_seconds)),
  )));
  byId("endpoints").caption.textContent = shown.length < status.endpoints.length ? `Workers: ${shown.length} of ${status.endpoints.length} connections, silent ones first` : "Workers";
}

function show(status) {
  byId("name").textContent = status.name;
  verdict(status);
  const last = status.accuracy.at(-1);
  byId("facts").replaceChildren(
    fact("Workers alive", `${status.alive} of ${status.workers}`, `a round needs ${status.fewest}`),
    fact("Rounds done", `${status.rounds_done} of ${status.rounds_planned}`, "of those planned"),
    fact("Privacy spent", share(status.spent), status.epsilon
      ? `of the budget by the worst worker; all of it is epsilon ${status.epsilon}, delta ${status.delta.toExponential()}`
      : "no privacy: what workers send protects nobody"),
    fact("Accuracy", percent(last), "of the model, on the test rows"),
  );
  curve(status);
  rows(status);
}

async function look() {
  try {
    const status = await ask("api/status");
    if (status.name) show(status);
    notice("");
  } catch {
    notice("The server does not answer: it has ended, or this link is of another. Start it again for another link.");
  }
  setTimeout(look, 1000 * SECONDS);
}

look();
