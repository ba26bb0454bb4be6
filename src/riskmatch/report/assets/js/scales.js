// Axes and scales: from values to positions in a chart.

function ticks(low, high, limit = 6) {
  const rough = (high - low) / limit;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    values.push(Number((k * step).toPrecision(12)));
  }
  return values;
}

// Smallest and largest known value, widened where they are equal.
function extent(values, ...others) {
  const all = [...values.filter(known), ...others];
  if (!all.length) return [0, 1];
  const [low, high] = all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [all[0], all[0]]);
  return low < high ? [low, high] : [low - (Math.abs(low) / 2 || 0.5), high + (Math.abs(high) / 2 || 0.5)];
}

// Scales of an axis: a function of values, and its ticks from low to high.
const SCALES = {
  linear: { of: (value) => value, ticks },
  root: { of: Math.sqrt, ticks: (low, high, limit) => ticks(Math.sqrt(low), Math.sqrt(high), limit).map((value) => value ** 2) },
  log: { of: (value) => Math.log10(value), ticks: logTicks },
};

// Powers of ten, with their double and fivefold over few decades; at least the two ends.
function logTicks(low, high, limit) {
  const decades = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) decades.push(power);
  const factors = decades.length <= 2 ? [1, 2, 5] : [1];
  const every = Math.ceil(decades.length / limit);
  const values = decades.filter((_, i) => i % every === 0).flatMap((power) => factors.map((factor) => factor * 10 ** power))
    .filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
  return values.length > 1 ? values : [low, high];
}

// Empty chart with axes: a group to draw in, and functions from values to positions.
function chartFrame({ title, text, width, height = 280, x, y, xLabel, yLabel, right = 12, format = number, xScale = "linear", yScale = "linear" }) {
  const margin = { left: 48, right, top: 26, bottom: 40 };
  const inner = [width - margin.left - right, height - margin.top - margin.bottom];
  const place = (scale, [low, high]) => (value) => (scale.of(value) - scale.of(low)) / (scale.of(high) - scale.of(low));
  const [across, up] = [place(SCALES[xScale], x), place(SCALES[yScale], y)];
  const px = (value) => margin.left + across(value) * inner[0];
  const py = (value) => margin.top + inner[1] - up(value) * inner[1];
  const heights = SCALES[yScale].ticks(...y, 5);
  const bottom = margin.top + inner[1];
  const axes = svg("g", { class: "axes", "aria-hidden": true });
  for (const value of heights) {
    axes.append(
      svg("line", { class: "rule", x1: margin.left, x2: width - right, y1: py(value), y2: py(value) }),
      svg("text", { x: margin.left - 6, y: py(value) + 4, "text-anchor": "end" }, format(value)));
  }
  for (const value of SCALES[xScale].ticks(...x, Math.max(2, Math.round(inner[0] / 80)))) {
    axes.append(
      svg("line", { class: "tick", x1: px(value), x2: px(value), y1: bottom, y2: bottom + 4 }),
      svg("text", { x: px(value), y: bottom + 17, "text-anchor": "middle" }, number(value)));
  }
  axes.append(
    svg("line", { class: "base", x1: margin.left, x2: width - right, y1: bottom, y2: bottom }),
    svg("text", { class: "label", x: width - right, y: height - 6, "text-anchor": "end" }, xLabel),
    svg("text", { class: "label", x: 2, y: 14 }, yLabel));
  const plot = svg("g", { class: "plot" });
  const node = image(title, text, width, height, axes, plot);
  return { image: node, plot, px, py, bottom, top: margin.top, right: width - right, left: margin.left };
}

function image(title, text, width, height, ...children) {
  return svg("svg", { role: "img", viewBox: `0 0 ${width} ${height}`, class: "chart" },
    svg("title", {}, title), svg("desc", {}, text), ...children);
}

// Path through points, interrupted at unknown values.
function line(xs, ys, px, py) {
  let path = "";
  let pen = "M";
  ys.forEach((value, i) => {
    if (!known(value)) {
      pen = "M";
      return;
    }
    path += `${pen}${px(xs[i]).toFixed(1)},${py(value).toFixed(1)}`;
    pen = "L";
  });
  return path;
}
