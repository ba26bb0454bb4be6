// Calibration: accuracy against confidence, one point per bin with its area proportional to its samples.

CHARTS.calibration = (run, width) => {
  const domains = selectedDomains(run).filter((domain) => own(run.calibration, domain));
  if (!domains.length) return [message("No selected domain has confidences.")];
  return [panels(domains, width, { minWidth: 200, maxWidth: 340 }, (domain, panelWidth) => reliability(run, domain, panelWidth)),
    valueTable("Calibration by bin", ["domain", "confidence", "accuracy", "samples"], () => domains.flatMap((domain) =>
      run.calibration[domain].bins.map((bin) => [name(domain), bin.confidence, bin.accuracy, bin.n])))];
};

function reliability(run, domain, width) {
  const { ece, bins } = run.calibration[domain];
  const filled = bins.filter((bin) => bin.n && known(bin.confidence) && known(bin.accuracy));
  const axes = chartFrame({
    title: `Calibration of ${domain}`, text: `Expected calibration error ${percent(ece)} %.`,
    width, height: width * 0.9, x: [0, 1], y: [0, 1], xLabel: "confidence →", yLabel: "accuracy",
  });
  const largest = Math.max(1, ...filled.map((bin) => bin.n));
  axes.plot.append(svg("line", { class: "diagonal", x1: axes.px(0), y1: axes.py(0), x2: axes.px(1), y2: axes.py(1) }));
  const hue = seriesStyle(domain).class;
  axes.plot.append(svg("path", { class: `line ${hue}`, "data-series": domain,
    d: line(filled.map((bin) => bin.confidence), filled.map((bin) => bin.accuracy), axes.px, axes.py) }));
  for (const bin of filled) {
    axes.plot.append(svg("circle", { class: `mark ${hue}`, cx: axes.px(bin.confidence), cy: axes.py(bin.accuracy),
      r: 2 + 6 * Math.sqrt(bin.n / largest) },
    svg("title", {}, `confidence ${percent(bin.confidence)} %, accuracy ${percent(bin.accuracy)} %, ${bin.n} samples`)));
  }
  const test = isTest(run, domain) ? html("span", { class: "note" }, "test") : null;
  return [html("figcaption", {}, swatch(domain), html("b", {}, name(domain)), test,
    html("span", { class: "note" }, `ECE ${percent(ece)} % · ${run.samples[domain]}`)), axes.image];
}
