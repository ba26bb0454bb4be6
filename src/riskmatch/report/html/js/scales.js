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

// Empty chart with axes: a group to draw in, and functions from values to positions. With `squareRoot`
// the y axis has a square-root scale.
function chartFrame({ title, text, width, height = 280, x, y, xLabel, yLabel, right = 12, format = number, squareRoot = false }) {
  const margin = { left: 48, right, top: 26, bottom: 40 };
  const inner = [width - margin.left - right, height - margin.top - margin.bottom];
  const px = (value) => margin.left + ((value - x[0]) / (x[1] - x[0])) * inner[0];
  const fraction = (value) => (value - y[0]) / (y[1] - y[0]);
  const py = (value) => margin.top + inner[1] - (squareRoot ? Math.sqrt(fraction(value)) : fraction(value)) * inner[1];
  const heights = squareRoot ? ticks(0, Math.sqrt(y[1]), 6).map((value) => value ** 2) : ticks(...y, 5);
  const bottom = margin.top + inner[1];
  const axes = svg("g", { class: "axes", "aria-hidden": true });
  for (const value of heights) {
    axes.append(
      svg("line", { class: "rule", x1: margin.left, x2: width - right, y1: py(value), y2: py(value) }),
      svg("text", { x: margin.left - 6, y: py(value) + 4, "text-anchor": "end" }, format(value)));
  }
  for (const value of ticks(...x, Math.max(2, Math.round(inner[0] / 80)))) {
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
