// One slot, step by step. Dragging the eavesdropper asks the server what it would receive there.
import { ask } from "./server.js";
import { byId, make, notice, number, onScenario, percent } from "./shared.js";
import { picture, range } from "./pictures.js";

// Whose noise is added besides the receiver's: before sending, and what of it is left in the sum.
const ADDED = {
  workers: [" Each adds noise of its own, so that its sample is never received without noise.", ": their noise adds up too"],
  masked: [" Each adds noise of its own, and masks that it shares with other workers: a listener beside one worker cannot remove them.", ": their noise adds up too, and the masks cancel"],
};
const ABOUT = {
  Schedule: "Who sends in this slot.", Ratios: "Which share of the mixture each has.", Powers: "How strongly each sends.",
  Samples: "What each sends.", Antenna: "What the server receives.", Eavesdropper: "What a listener elsewhere receives.",
};
const STEPS = Object.keys(ABOUT);
const ENGLISH = (value) => value.toLocaleString("en");
let asked, step = 0, place = null, scene = null, busy = false, again = false, outdated = true, visible = false;

export function startWatch(askedScenario) {
  asked = askedScenario;
  byId("steps").append(...STEPS.map((name, number) => make("li", {}, make("button", { type: "button", title: ABOUT[name], onclick: () => go(number) }, `${number + 1} ${name}`))),
    make("li", {}, make("button", { type: "button", id: "next", class: "primary", onclick: () => go((step + 1) % STEPS.length) }, "Next step")));
  byId("slot").addEventListener("change", load);
  byId("own-place").addEventListener("click", () => { place = null; load(); });
  addEventListener("keydown", (event) => {
    if (byId("watch").hidden || event.target.closest("input, select, [role=slider]")) return;
    if (event.key === "ArrowRight") go(Math.min(STEPS.length - 1, step + 1));
    if (event.key === "ArrowLeft") go(Math.max(0, step - 1));
  });
  onScenario(() => { outdated = true; place = null; if (!byId("watch").hidden) load(); });
  return () => { visible = true; if (outdated) load(); };
}

function go(number) { step = number; if (scene) draw(); }

async function load() {
  if (busy) { again = true; return; } // one question at a time: of a drag only the last place counts
  busy = true;
  try {
    scene = await ask("api/watch", { ...asked(), slot: Math.max(1, Math.round(Number(byId("slot").value) || 1)), place });
    outdated = false;
    notice("");
    draw();
  } catch (problem) {
    notice(problem.message);
    if (scene && Number(byId("slot").value) > scene.slots) byId("slot").value = scene.slots;
  }
  busy = false;
  if (again) { again = false; load(); }
}

function draw() {
  byId("slot").max = scene.slots;
  byId("slot").value = scene.slot;
  byId("slots-note").textContent = `of ${ENGLISH(scene.slots)}${scene.all_slots > scene.slots ? ` shown; the run has ${ENGLISH(scene.all_slots)}` : ""}`;
  for (const [number, item] of [...byId("steps").children].slice(0, STEPS.length).entries()) {
    const button = item.firstChild;
    button.className = number < step ? "done" : "";
    if (number === step) button.setAttribute("aria-current", "step"); else button.removeAttribute("aria-current");
  }
  byId("next").textContent = step === STEPS.length - 1 ? "Again" : "Next step";
  drawMap();
  byId("scene").replaceChildren(...[explain(), sendersCard(), step >= 4 ? antennaCard() : null, step >= 5 && scene.on_air ? spyCard() : null].filter(Boolean));
}

function explain() {
  const few = scene.sending > scene.senders.length ? ` ${scene.senders.length} of ${ENGLISH(scene.sending)} are shown${scene.senders[0].ratio > 1.001 / scene.sending ? ", those with the largest share" : ""}.` : "";
  const moments = scene.sends === "moments", [before, inSum] = ADDED[scene.noise] ?? ["", ""];
  const texts = [
    `${ENGLISH(scene.sending)} of ${ENGLISH(scene.workers)} workers are scheduled in slot ${scene.slot}.${few}`,
    "Each scheduled worker gets a mixing ratio q; together they are 1.",
    `Each sends with power beta q² / |h|², so that its share arrives as q whatever its channel: who is far away sends louder. beta = ${number(scene.power_scale_watts, 3)} W${scene.limited ? ", lowered by the power limit" : ""}.`,
    (moments ? "All send at the same time: each the products of its numbers and of its label. These are the samples that they hold." : "All send at the same time: each its own sample, input and label.") + before,
    `The channel adds them up${inSum}; the receiver adds noise. Signal to noise: ${scene.snr_db.toFixed(1)} dB.`,
    "An eavesdropper receives each worker with another loudness and phase than the server. Drag it towards a worker that sends.",
  ];
  const packets = {
    2: "Each sends packets with the same power, one worker of an access point after the other, and again until they arrive.",
    3: `Each sends the integers that stand for ${moments ? "the products of its numbers and of its label" : "its sample"}, modulo a power of two.${before}`,
    4: `Access points add up what they receive${inSum}, modulo the same power, and forward one vector each: the server has the sum with the workers' own noise. Signal to noise: ${scene.snr_db.toFixed(1)} dB.`,
    5: `An eavesdropper reads every packet. ${scene.noise === "masked" ? "Masked integers are uniform, whatever the sample: it learns what the server does." : "A worker's own noise alone hides its integers."}`,
  };
  return make("p", { role: "status" }, make("strong", {}, `${STEPS[step]}. `), (scene.on_air ? null : packets[step]) ?? texts[step]);
}

function sendersCard() {
  const all = range(scene.senders.flatMap((each) => each.input).concat([0]));
  const widest = Math.max(...scene.senders.map((each) => each.ratio), 1e-9);
  return make("div", { class: "senders" }, scene.senders.map((each) => make("div", { class: "sender" },
    make("b", {}, `worker ${ENGLISH(each.worker)}`), make("div", { class: "quiet" }, `${each.distance_metres.toFixed(0)} m away`),
    step >= 1 ? [make("div", {}, `q = ${number(each.ratio, 3)}`), make("div", { class: "meter" }, make("i", { style: `width:${(100 * each.ratio) / widest}%` }))] : null,
    step >= 2 ? [make("div", {}, `${each.power_dbm.toFixed(1)} dBm`), make("div", { class: "quiet" }, `channel ${each.channel_db.toFixed(1)} dB`)] : null,
    step >= 3 && each.input.length ? [picture(each.input, scene.shape, all, `sample of worker ${each.worker}`), make("div", {}, each.label ? `label ${each.label}` : "")] : null,
    step >= 5 ? make("div", { class: "quiet" }, `heard at ${each.heard_db.toFixed(0)} dB`) : null)));
}

function antennaCard() {
  const limits = range(scene.clean), wide = range([...scene.clean, ...scene.received]);
  const shape = scene.sends === "moments" ? null : scene.shape;
  const same = shape ? limits : wide;
  return make("div", { class: "card" }, make("h2", {}, `What the ${scene.on_air ? "antenna" : "server"} receives`), make("div", { class: "triple" },
    make("figure", {}, picture(scene.clean, shape, same, "the sum without noise"), "the sum without noise, which nobody sees"),
    make("figure", {}, picture(scene.received, shape, same, "the mixture as received"), "the mixture: all that the server learns from"),
    make("figure", {}, picture(scene.received_labels, null, range([...scene.received_labels, ...scene.clean_labels, 0]), "received label mixture"), scene.sends === "moments" ? "products with the label" : `the label mixture: ${labels()}`)));
}

function labels() {
  const largest = scene.received_labels.map((value, place) => [value, scene.classes[place]]).sort((one, other) => other[0] - one[0]).slice(0, 3);
  return largest.map(([value, name]) => `${name} ${number(value, 2)}`).join(", ");
}

function spyCard() {
  const spy = scene.eavesdropper, loudest = scene.senders.find((each) => each.worker === spy.loudest);
  const shape = scene.sends === "moments" ? null : scene.shape;
  return make("div", { class: "card" }, make("h2", {}, "What the eavesdropper receives"), make("div", { class: "triple" },
    make("figure", {}, picture(spy.inputs, shape, range(spy.inputs), "what the eavesdropper receives"), `signal to noise ${spy.snr_db.toFixed(1)} dB, phase guessed`),
    make("figure", {}, loudest?.input.length ? picture(loudest.input, scene.shape, range(loudest.input), "sample of the loudest worker") : "", `the worker that it hears loudest: ${ENGLISH(spy.loudest)}, with ${percent(spy.loudest_share)} of the power`),
    make("figure", {}, `It stands ${spy.nearest_metres.toFixed(0)} m from the nearest worker, with ${spy.antennas} antenna${spy.antennas === 1 ? "" : "s"} and ${number(spy.noise_dbm)} dBm of noise.`)));
}

function drawMap() {
  const scale = 200 / scene.side_metres, at = ([east, north]) => [east * scale, -north * scale];
  const circle = (where, radius, attributes, text) => make("circle", { cx: at(where)[0], cy: at(where)[1], r: radius, ...attributes }, text ? make("title", {}, text) : "");
  const widest = Math.max(...scene.scheduled.map((each) => each.ratio), 1e-9), many = scene.scheduled.length > 200;
  const spy = at(scene.eavesdropper.place).map((each) => Math.max(-108, Math.min(108, each)));
  const parts = [make("rect", { class: "border", x: -100, y: -100, width: 200, height: 200 }), make("text", { x: -99, y: 106.500 }, `${number(scene.side_metres)} m`)];
  parts.push(...scene.places.map((where) => circle(where, 0.8, { class: "worker" })));
  if (step >= 3 && !many) parts.push(...scene.scheduled.map((each) => make("line", { class: "ray", x1: at(each.place)[0], y1: at(each.place)[1], x2: 0, y2: 0 })));
  if (step >= 5 && !many) parts.push(...scene.scheduled.map((each) => make("line", { class: "spy-ray", x1: at(each.place)[0], y1: at(each.place)[1], x2: spy[0], y2: spy[1] })));
  parts.push(...scene.scheduled.map((each) => circle(each.place, many ? 1 : step >= 1 ? 1.5 + 3.5 * Math.sqrt(each.ratio / widest) : 3, { class: "sender" }, `worker ${each.worker}, q = ${number(each.ratio, 3)}`)));
  parts.push(make("polygon", { class: "server", points: "0,-5 4.500,4 -4.500,4" }, make("title", {}, "server")));
  const marker = make("g", { class: "spy", id: "spy", tabindex: 0, role: "slider", "aria-label": "Eavesdropper", "aria-valuemin": 0, "aria-valuemax": scene.side_metres, "aria-valuenow": Math.round(scene.eavesdropper.nearest_metres), "aria-valuetext": `${scene.eavesdropper.place.map((each) => Math.round(each)).join(" m east, ")} m north of the server` },
    make("circle", { class: "halo", cx: spy[0], cy: spy[1], r: 8 }), make("circle", { cx: spy[0], cy: spy[1], r: 3.200 }));
  const held = document.activeElement?.id === "spy";
  byId("map").replaceChildren(...parts, marker);
  if (held) marker.focus();
}

// On the map itself, since the marker is drawn anew while it is dragged.
let dragging = false;
byId("map").addEventListener("pointerdown", (event) => {
  if (!event.target.closest("#spy")) return;
  dragging = true;
  byId("map").setPointerCapture(event.pointerId);
  event.preventDefault();
});
byId("map").addEventListener("pointermove", (event) => {
  if (!dragging || !scene) return;
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(byId("map").getScreenCTM().inverse()), scale = 200 / scene.side_metres;
  moveTo([Math.max(-108, Math.min(108, point.x)) / scale, -Math.max(-108, Math.min(108, point.y)) / scale]);
});
for (const name of ["pointerup", "pointercancel"]) byId("map").addEventListener(name, () => { dragging = false; });
byId("map").addEventListener("keydown", (event) => {
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  if (!move || !scene || !event.target.closest("#spy")) return;
  event.preventDefault();
  const length = scene.side_metres / (event.shiftKey ? 10 : 50);
  moveTo(scene.eavesdropper.place.map((each, axis) => each + move[axis] * length));
});

function moveTo(where) {
  place = where.map((each) => Math.round(100 * each) / 100);
  scene.eavesdropper.place = place;
  if (step < 5) step = 5;
  drawMap();
  load();
}
