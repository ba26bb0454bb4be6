// Learning curves: the metric and mean risk by domain, loss and its terms.

CHARTS.metric = (run, width) => learning(run, width, {
  series: run.curves.metric, title: `${capitalised(PAGE.metric.title)} over the steps`, yLabel: metricLabel(),
  format: (value) => number(PAGE.metric.percent ? 100 * value : value), text: PAGE.metric.percent ? percent : metricText,
});

CHARTS.risk = (run, width) => learning(run, width, {
  series: run.curves.risk, title: "Mean risk over the steps", yLabel: "mean risk",
  format: number, text: number,
});

function learning(run, width, { series, title, yLabel, format, text }) {
  const { steps } = run.curves;
  const domains = selectedDomains(run).filter((domain) => own(series, domain));
  if (!domains.length) return [message("No selected domain was evaluated.")];
  const labelled = width > 520 && domains.length <= 12;
  const axes = chartFrame({
    title, width, yLabel, format, right: labelled ? 118 : 12, xLabel: "step →", height: 300,
    text: domains.map((d) => `${d}: ${text(atChosen(run, series[d][mainPart(run, d)]))} on the ${run.parts[mainPart(run, d)]}.`).join(" "),
    x: extent(steps), y: extent(domains.flatMap((d) => [...(series[d].val ?? []), ...(series[d].train ?? [])])),
  });
  drawStart(run, axes);
  if (known(run.chosen)) {
    const x = axes.px(run.chosen);
    axes.plot.append(svg("line", { class: "chosen", x1: x, x2: x, y1: axes.top, y2: axes.bottom }, svg("title", {}, `chosen step ${run.chosen}`)));
  }
  const ends = [];
  for (const domain of domains) {
    const main = series[domain][mainPart(run, domain)] ?? [];
    const strong = isTest(run, domain) ? " strong" : "";
    const hue = seriesStyle(domain).class;
    if (!strong) {
      axes.plot.append(svg("path", { class: `line faint ${hue}`, d: line(steps, series[domain].train ?? [], axes.px, axes.py), "stroke-dasharray": "5 4" }));
    }
    axes.plot.append(svg("path", { class: `line ${hue}${strong}`, d: line(steps, main, axes.px, axes.py), "data-series": domain }));
    const every = Math.ceil(steps.length / Math.max(2, width / 40));
    main.forEach((value, i) => {
      if (known(value) && (i % every === 0 || i === main.length - 1 || steps[i] === run.chosen)) {
        axes.plot.append(marker(domain, axes.px(steps[i]), axes.py(value),
          `${domain}, step ${steps[i]}: ${text(value)}`));
      }
    });
    const end = last(main);
    if (known(end)) ends.push({ y: axes.py(end), text: domain, strong });
  }
  if (labelled) drawEndLabels(axes, ends);
  const part = (d) => `${run.parts[mainPart(run, d)]} ${text(atChosen(run, series[d][mainPart(run, d)]))}`;
  return [legend(run, domains, part), axes.image,
    valueTable(`${title}, ${yLabel}`, ["step", ...domains.map((d) => `${shorten(d, 60)}, ${run.parts[mainPart(run, d)]}`)],
      () => steps.map((step, i) => [step, ...domains.map((d) => text((series[d][mainPart(run, d)] ?? [])[i]))]))];
}

// The part that is reported: of test domains the first one, of training domains validation.
function mainPart(run, domain) {
  return isTest(run, domain) ? "train" : "val";
}

// A vertical line at the step from which the method acts, where it has a warm-up.
function drawStart(run, axes) {
  const { start, steps } = run.curves;
  if (!start || start < steps[0] || start > steps.at(-1)) return;
  const x = axes.px(start).toFixed(1);
  axes.plot.append(svg("line", { class: "leader start", x1: x, x2: x, y1: axes.top, y2: axes.bottom },
    svg("title", {}, `step ${start}: the method starts to act`)));
}

// The value at the chosen step, as in the headline; without one, the last value.
function atChosen(run, values) {
  const place = run.curves.steps.indexOf(run.chosen);
  return place < 0 ? last(values) : values?.[place];
}

function last(values) {
  return (values ?? []).filter(known).at(-1);
}

// Matching loss on training and on validation samples.
CHARTS.matching = (run, width) => {
  const { steps, train, val } = run.matching;
  const lines = [["training samples", train, "5 4"], ["validation samples", val, null]];
  const positive = [...train, ...val].filter((value) => known(value) && value > 0);
  if (!positive.length) return [message("The matching loss is zero at every step.")];
  const axes = chartFrame({
    title: "Matching loss over the steps", width: Math.min(width, 640), height: 260, yScale: "log",
    text: lines.map(([label, values]) => `${label}: ${number(last(values))} at the last step.`).join(" "),
    x: extent(steps), y: extent(positive), xLabel: "step →", yLabel: "matching loss, log scale",
  });
  drawStart(run, axes);
  for (const [label, values, dash] of lines) {
    const shown = values.map((value) => (known(value) && value > 0 ? value : null));
    axes.plot.append(svg("path", { class: "line plain", "data-line": label, d: line(steps, shown, axes.px, axes.py), "stroke-dasharray": dash },
      svg("title", {}, label)));
  }
  const items = lines.map(([label, values, dash]) => html("li", {},
    svg("svg", { class: "swatch", viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": true },
      svg("line", { class: "line plain", x1: 1, x2: 33, y1: 6, y2: 6, "stroke-dasharray": dash })),
    label, html("span", { class: "note" }, number(last(values)))));
  axes.image.style.maxWidth = "640px";
  return [html("ul", { class: "legend" }, ...items), axes.image,
    valueTable("Matching loss", ["step", "training samples", "validation samples"], () => steps.map((step, i) => [step, train[i], val[i]]))];
};

CHARTS.terms = (run, width) => {
  const { steps, loss, terms, raw } = run.curves;
  const parts = [["loss", loss ?? [], "sum of the terms"],
    ...Object.entries(terms ?? {}).map(([key, values]) => [key, values, "term of the loss"]),
    ...Object.entries(raw ?? {}).map(([key, values]) => [key, values, own(terms, key) ? "without its weight" : "not part of the loss"])]
    .filter(([, values]) => values.some(known));
  if (!parts.length) return [message("The records of this run hold no loss.")];
  return [panels(parts, width, { minWidth: 260, maxWidth: 420 }, ([key, values, note], panelWidth) => {
    const axes = chartFrame({
      title: `${key}, ${note}`, text: `${number(last(values))} at the last step.`, width: panelWidth, height: 200,
      x: extent(steps), y: extent(values), xLabel: "step →", yLabel: "",
    });
    drawStart(run, axes);
    axes.plot.append(svg("path", { class: "line plain", d: line(steps, values, axes.px, axes.py) }));
    const caption = html("figcaption", {}, html("b", {}, name(key)), html("span", { class: "note" }, note));
    return [caption, axes.image];
  }), valueTable("Loss, terms and penalties", ["step", ...parts.map(([key]) => name(key))],
    () => steps.map((step, i) => [step, ...parts.map(([, values]) => values[i])]))];
};
