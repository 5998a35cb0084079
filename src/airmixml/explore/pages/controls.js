// Inputs of the design page: a number with a slider, or a choice; each has a label and changes one key.
import { byId, make } from "./shared.js";

const GROUPS = [
  ["Workers and slots", [
    { key: "workers.count", label: "Workers", low: 10, high: 1e6, log: true },
    { key: "radio.scheduled", label: "Workers per slot", low: 1, high: 1e4, log: true },
    { key: "radio.slots", label: "Slots", low: 1, high: 1e5, log: true },
    { key: "mixing.policy", label: "Ratios" },
    { key: "mixing.alpha", label: "Spread of ratios (alpha)", low: 1e-2, high: 1e6, log: true },
  ]],
  ["Privacy", [
    { key: "mixing.power", label: "Power set by" },
    { key: "privacy.epsilon", label: "Target epsilon", low: 0.05, high: 1e3, log: true },
    { key: "privacy.delta", label: "Delta", low: 1e-8, high: 0.1, log: true },
    { key: "privacy.adversary", label: "Adversary" },
    { key: "privacy.accountant", label: "Accountant" },
    { key: "privacy.adjacency", label: "Neighbours" },
    { key: "privacy.noise", label: "Noise source" },
    { key: "privacy.arithmetic", label: "Numbers" },
    { key: "privacy.most_absent", label: "Absent workers recovered", low: 0, high: 0.45 },
  ]],
  ["Radio", [
    { key: "workers.side_metres", label: "Side of the square", unit: "m", low: 10, high: 1e4, log: true },
    { key: "privacy.eavesdropper_distance_metres", label: "Eavesdropper at", unit: "m", low: 0.1, high: 1e3, log: true },
    { key: "radio.fading", label: "Fading" },
    { key: "radio.noise_dbm", label: "Receiver noise", unit: "dBm", low: -140, high: -60 },
    { key: "radio.max_power_dbm", label: "Power limit", unit: "dBm", low: -30, high: 40 },
    { key: "radio.link", label: "Link" },
    { key: "link.access_points", label: "Access points", low: 1, high: 1e4, log: true },
    { key: "link.rate_mbps", label: "Rate of each", unit: "Mb/s", low: 0.1, high: 1e4, log: true },
  ]],
  ["What is sent, and who learns", [
    { key: "workers.dataset", label: "Data set" },
    { key: "workers.sends", label: "Workers send" },
    { key: "workers.encoder", label: "Encoder" },
    { key: "privacy.sensitivity", label: "Sensitivity" },
    { key: "learner.model", label: "Learner" },
    { key: "learner.rounds", label: "Rounds" },
  ]],
];
// What a word of a scenario file stands for, where it does not say so itself.
const SHOWN = {
  "mixing.policy": { dirmix: "random", equalmix: "equal", nonmix: "one worker" },
  "mixing.power": { dp: "privacy target", max: "power limit", fixed: "fixed value" },
  "privacy.noise": { workers: "workers", masked: "workers, masked" },
};
const STEPS = 1000;
const fields = new Map();

export function makeControls(form, choices, change) {
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const [title, controls] of GROUPS) {
    form.append(make("fieldset", {}, make("legend", {}, title), controls.map((each) => makeControl(each, choices.keys[each.key], change))));
  }
}

function makeControl(control, key, change) {
  const id = control.key.replace(".", "-"), label = make("label", { for: id, title: key.about }, control.label, control.unit ? make("span", { class: "unit" }, ` ${control.unit}`) : "");
  if (key.words.length) {
    const select = make("select", { id, title: key.about, onchange: () => change(control.key, select.value) }, key.words.map((word) => make("option", { value: word, title: key.abouts[word] }, SHOWN[control.key]?.[word] ?? word)));
    const row = make("div", { class: "control wide" }, label, select);
    fields.set(control.key, { control, input: select });
    return row;
  }
  const input = make("input", { id, type: "number", step: "any", inputmode: "decimal", title: key.about, onchange: () => input.value !== "" && change(control.key, Number(input.value)) });
  const slider = make("input", { type: "range", min: 0, max: STEPS, "aria-label": `${control.label}, slider`, oninput: () => {
    const value = fromSlider(control, key, Number(slider.value));
    input.value = value;
    change(control.key, value);
  } });
  // An arrow key goes on to the next value: a step of the slider is less than one worker where there are few.
  slider.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const value = fromSlider(control, key, Number(slider.value));
    let place = Number(slider.value);
    while (place + step >= 0 && place + step <= STEPS && fromSlider(control, key, place) === value) place += step;
    slider.value = place;
    slider.dispatchEvent(new Event("input"));
  };
  const row = make("div", { class: "control" }, label, input, slider);
  fields.set(control.key, { control, input, slider });
  return row;
}

function fromSlider(control, key, place) {
  const share = place / STEPS;
  if (!control.log) return Math.round(2 * (control.low + share * (control.high - control.low))) / 2;
  const value = control.low * (control.high / control.low) ** share;
  return key.whole ? Math.max(1, Number(Math.round(value).toPrecision(value < 100 ? 15 : 2))) : Number(value.toPrecision(2));
}

function toSlider(control, value) {
  const share = control.log ? Math.log(value / control.low) / Math.log(control.high / control.low) : (value - control.low) / (control.high - control.low);
  return Math.round(STEPS * Math.min(1, Math.max(0, share)));
}

export function fillControls(values) {
  for (const [key, { control, input, slider }] of fields) {
    const value = values[key];
    if (input.tagName === "SELECT" || ![input, slider].includes(document.activeElement)) {
      if (input.tagName === "SELECT" && ![...input.options].some((each) => each.value === String(value))) input.append(make("option", { value }, value));
      input.value = typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value ?? "";
    }
    if (slider && slider !== document.activeElement) slider.value = toSlider(control, value);
  }
  markInvalid("");
  byId("controls").dataset.filled = "yes";
}

// Marks the control of the key that a line of refusal names, and no other.
export function markInvalid(line) {
  for (const [key, { input }] of fields) {
    if (line.startsWith(`${key} `) || line.startsWith(`${key}:`)) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
}
