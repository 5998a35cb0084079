// The scenario that all three pages show, and small helpers for elements and charts.

export const scenario = { preset: "paper-iris", toml: null, file: null, overrides: {} };
const listeners = new Set();
const KEPT = "airmix-scenario";

export function onScenario(listener) { listeners.add(listener); }

export function changeScenario(changes) {
  Object.assign(scenario, changes);
  try { sessionStorage.setItem(KEPT, JSON.stringify(scenario)); } catch { /* a full or closed store: only reloading is less handy */ }
  for (const listener of listeners) listener();
}

export function restoreScenario() {
  try { Object.assign(scenario, JSON.parse(sessionStorage.getItem(KEPT) ?? "{}")); } catch { /* begin afresh */ }
}

export function setKey(key, value) { changeScenario({ overrides: { ...scenario.overrides, [key]: value } }); }

export function asked() {
  const base = scenario.toml === null ? { preset: scenario.preset } : { toml: scenario.toml, file: scenario.file };
  return { ...base, overrides: scenario.overrides };
}

export const byId = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  const svg = ["svg", "circle", "line", "rect", "g", "path", "text", "title", "polygon"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const fact = (name, value, note, about) => make("div", { title: about }, make("dt", {}, name), make("dd", {}, value, make("small", {}, note)));

export function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

export function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e3 && Math.abs(value) < 1e15) { // as commands and reports write it
    const rounded = Number(value.toPrecision(Math.abs(value) >= 1e4 ? 3 : digits));
    const [size, word] = [[1e9, " billion"], [1e6, " million"], [1, ""]].find(([least]) => Math.abs(rounded) >= least);
    return (rounded / size).toLocaleString("en", { maximumSignificantDigits: 10 }) + word;
  }
  if (value !== 0 && (Math.abs(value) >= 1e15 || Math.abs(value) < 1e-3)) return Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);

export const COLOURS = ["#0f7fa8", "#d97706", "#2e8b57", "#a64ac9", "#c0392b", "#6b7a8f", "#b8860b", "#3f51b5"];

// Decades have ticks; where there are few, so have 2 and 5.
export function logAxis(values, title) {
  const known = values.filter((each) => each > 0), decades = Math.log10(Math.max(...known) / Math.min(...known));
  return { type: "log", title: { text: title, standoff: 6 }, exponentformat: "power", dtick: decades > 8 ? 2 : decades > 1.9 ? 1 : "D2" };
}

// Plotly takes tags, entities and %{...} in a name for its own.
export const plain = (name) => name.replace(/[&<>%]/g, (sign) => `&#${sign.charCodeAt(0)};`);

const drawn = new Map();

export function chart(id, traces, layout = {}) {
  drawn.set(id, [traces, layout]);
  if (layout.empty && !traces.length) byId(id).dataset.empty = layout.empty; else delete byId(id).dataset.empty;
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--quiet").trim();
  const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  const whole = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 }, colorway: COLOURS,
    margin: { l: 54, r: 12, t: 34, b: 40 }, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, entrywidth: 0 }, hoverlabel: { font: { size: 12 } },
    ...layout, xaxis: { ...axis, visible: traces.length > 0, ...layout.xaxis }, yaxis: { ...axis, visible: traces.length > 0, ...layout.yaxis },
  };
  window.Plotly?.react(byId(id), traces, whole, { displayModeBar: false, responsive: true });
}

export function redrawCharts() { for (const [id, [traces, layout]] of drawn) chart(id, traces, layout); }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
