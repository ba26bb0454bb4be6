// The metric against each hyper-parameter that differs between the runs of a method: one point per run.

CHARTS.hyperparameters = (_, width) => PAGE.hyperparameters.map(({ method, charts }, i) => {
  const box = html("details", { class: "method", "data-series": method }, html("summary", {}, name(method)));
  box.addEventListener("toggle", () => box.append(panels(charts, width, { minWidth: 240, maxWidth: 400 },
    (chart, panelWidth) => scatter(method, chart, panelWidth))), { once: true });
  box.open = i === 0;
  return box;
});

function scatter(method, { title, log, points: runs }, width) {
  const xs = runs.map(([x]) => x);
  const axes = chartFrame({
    title: `${capitalised(PAGE.metric.title)} of ${method} against ${title}`, text: `${runs.length} runs.`, width, height: 220,
    x: extent(xs), y: extent(runs.map(([, y]) => y)), xScale: log ? "log" : "linear", xLabel: `${title} →`, yLabel: metricLabel(),
  });
  for (const [x, y, domain] of runs) {
    axes.plot.append(marker(domain, axes.px(x), axes.py(y), `${domain}: ${title} ${number(x)}, ${metricText(y)}${PAGE.metric.percent ? " %" : ""}`));
  }
  return [html("figcaption", {}, html("b", {}, title)), axes.image];
}
