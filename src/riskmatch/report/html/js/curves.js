// Learning curves: accuracy and mean risk by domain, loss and its terms.

CHARTS.accuracy = (run, width) => learning(run, width, {
  series: run.curves.accuracy, title: "Accuracy over the steps", yLabel: "accuracy (%)",
  format: (value) => number(100 * value), text: percent,
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
    text: domains.map((d) => `${d}: ${text(last(series[d].val))} on validation at the last step.`).join(" "),
    x: extent(steps), y: extent(domains.flatMap((d) => [...(series[d].val ?? []), ...(series[d].train ?? [])])),
  });
  drawStart(run, axes);
  const ends = [];
  for (const domain of domains) {
    const { train = [], val = [] } = series[domain];
    const strong = isTest(run, domain) ? " strong" : "";
    const hue = seriesStyle(domain).class;
    axes.plot.append(
      svg("path", { class: `line faint ${hue}`, d: line(steps, train, axes.px, axes.py), "stroke-dasharray": "5 4" }),
      svg("path", { class: `line ${hue}${strong}`, d: line(steps, val, axes.px, axes.py), "data-series": domain }));
    const every = Math.ceil(steps.length / Math.max(2, width / 40));
    val.forEach((value, i) => {
      if (known(value) && (i % every === 0 || i === val.length - 1)) {
        axes.plot.append(marker(domain, axes.px(steps[i]), axes.py(value),
          `${domain}, step ${steps[i]}: ${text(value)}`));
      }
    });
    const end = last(val);
    if (known(end)) ends.push({ y: axes.py(end), text: domain, strong });
  }
  if (labelled) drawEndLabels(axes, ends);
  return [legend(run, domains, (d) => text(last(series[d].val))), axes.image,
    valueTable(`${title}, validation`, ["step", ...domains.map(name)],
      () => steps.map((step, i) => [step, ...domains.map((d) => (series[d].val ?? [])[i])]))];
}

// A vertical line at the step from which the method acts, where it has a warm-up.
function drawStart(run, axes) {
  const { start, steps } = run.curves;
  if (!start || start < steps[0] || start > steps.at(-1)) return;
  const x = axes.px(start).toFixed(1);
  axes.plot.append(svg("line", { class: "leader", x1: x, x2: x, y1: axes.top, y2: axes.bottom },
    svg("title", {}, `step ${start}: the method starts to act`)));
}

function last(values) {
  return (values ?? []).filter(known).at(-1);
}

CHARTS.terms = (run, width) => {
  const { steps, loss, terms, raw } = run.curves;
  const parts = [["loss", loss ?? [], "sum of the terms"],
    ...Object.entries(terms ?? {}).map(([key, values]) => [key, values, "term of the loss"]),
    ...Object.entries(raw ?? {}).map(([key, values]) => [key, values, "unweighted penalty"])]
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
