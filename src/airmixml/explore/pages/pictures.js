// Samples and mixtures as small pictures: images on a canvas, other numbers as bars.
import { make } from "./shared.js";

export function range(values) {
  const low = Math.min(...values), high = Math.max(...values);
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
}

export function picture(values, shape, limits, label) {
  const size = shape && imageSize(shape);
  return size && values.length >= size[0] * size[1] ? image(values, size, limits, label) : bars(values, limits, label);
}

function imageSize(shape) { return shape.length === 2 ? shape : shape[0] === 1 ? shape.slice(1) : null; }

function image(values, [height, width], [low, high], label) {
  const canvas = make("canvas", { class: "image", width, height, role: "img", "aria-label": label });
  const context = canvas.getContext("2d"), pixels = context.createImageData(width, height);
  for (let place = 0; place < width * height; place += 1) {
    const grey = 255 * Math.min(1, Math.max(0, (values[place] - low) / (high - low)));
    pixels.data.set([grey, grey, grey, 255], 4 * place);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function bars(values, [low, high], label) {
  const shown = values.slice(0, 120), bottom = Math.min(0, low), top = Math.max(0, high), wide = 100 / Math.max(1, shown.length);
  const level = (value) => 40 * (1 - (Math.min(top, Math.max(bottom, value)) - bottom) / (top - bottom || 1));
  return make("svg", { class: "bars", viewBox: "0 -1 100 42", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${shown.slice(0, 12).map((each) => each.toPrecision(2)).join(", ")}` },
    shown.map((value, place) => make("rect", { x: wide * (place + 0.1), width: wide * 0.8, y: Math.min(level(value), level(0)), height: Math.max(0.4, Math.abs(level(value) - level(0))) })),
    make("line", { x1: 0, x2: 100, y1: level(0), y2: level(0) }));
}
