// Risk distributions of the domains at one step: histogram with density, and cumulative distribution.

const MAX_HISTOGRAMS = 8; // with more domains only the lines are readable

function distributions(run) {
  const shot = snapshot(run);
  return selectedDomains(run)
    .filter((domain) => own(shot.domains, domain))
    .map((domain) => {
      const shown = shot.domains[domain];
      return { ...shown, domain, edges: run.grids[shown.edges], x: run.grids[shown.x] };
    });
}

CHARTS.histogram = (run, width) => {
  const shown = distributions(run);
  const step = snapshot(run).step;
  if (!shown.length) return [message("No selected domain has risks at this step.")];
  const top = extent(shown.flatMap((d) => [...d.heights, ...d.density]), 0)[1];
  const axes = chartFrame({
    title: `Risk distributions at step ${step}`, text: means(shown), width, height: 320,
    x: extent(shown.flatMap((d) => [d.edges[0], d.edges.at(-1)])), y: [0, 1.04 * top],
    xLabel: "risk of a sample →", yLabel: "density", yScale: "root",
  });
  for (const d of shown) {
    const { class: hue, dash } = seriesStyle(d.domain);
    const bars = d.heights.map((height, i) =>
      `V${axes.py(height ?? 0).toFixed(1)}H${axes.px(d.edges[i + 1]).toFixed(1)}`).join("");
    if (shown.length <= MAX_HISTOGRAMS) {
      axes.plot.append(svg("path", { class: `bars ${hue}`,
        d: `M${axes.px(d.edges[0])},${axes.bottom}${bars}V${axes.bottom}Z` }));
    }
    axes.plot.append(
      svg("path", { "data-series": d.domain, class: `line ${hue}${isTest(run, d.domain) ? " strong" : ""}`,
        d: line(d.x, d.density, axes.px, axes.py), "stroke-dasharray": dash },
      svg("title", {}, d.domain)));
  }
  for (const d of shown.filter((one) => known(one.mean))) {
    const x = Math.min(axes.px(d.mean), axes.right);
    axes.plot.append(
      svg("line", { class: `mean ${seriesStyle(d.domain).class}`, x1: x, x2: x, y1: axes.bottom, y2: axes.bottom - 18 }),
      marker(d.domain, x, axes.bottom - 20, `${d.domain}: mean ${number(d.mean)}`));
  }
  return [legend(run, shown.map((d) => d.domain), (domain) => `mean ${number(find(shown, domain).mean)}`),
    axes.image, valueTable(`Risks at step ${step}`, ["domain", "samples", "mean", "median", "90 % quantile"],
      () => shown.map((d) => [name(d.domain), d.n, d.mean, quantile(d, 0.5), quantile(d, 0.9)]))];
};

CHARTS.cdf = (run, width) => {
  const shown = distributions(run);
  if (!shown.length) return [message("No selected domain has risks at this step.")];
  const axes = chartFrame({
    title: `Cumulative distributions at step ${snapshot(run).step}`,
    text: shown.map((d) => `${d.domain}: median ${number(quantile(d, 0.5))}.`).join(" "),
    width, x: extent(shown.flatMap((d) => [d.x[0], d.x.at(-1)])), y: [0, 1],
    xLabel: "risk of a sample →", yLabel: "% of samples", format: (value) => (100 * value).toFixed(0),
  });
  for (const d of shown) {
    const { class: hue, dash } = seriesStyle(d.domain);
    const strong = isTest(run, d.domain) ? " strong" : "";
    axes.plot.append(svg("path", { class: `line ${hue}${strong}`, "data-series": d.domain,
      d: line(d.x, d.cdf, axes.px, axes.py), "stroke-dasharray": dash }, svg("title", {}, d.domain)));
  }
  return [legend(run, shown.map((d) => d.domain)), axes.image];
};

function find(shown, domain) {
  return shown.find((d) => d.domain === domain);
}

function means(shown) {
  return shown.map((d) => `${d.domain}: mean ${number(d.mean)} over ${d.n} samples.`).join(" ");
}

// Smallest grid point at which the cumulative distribution reaches the level.
function quantile(d, level) {
  return d.x[d.cdf.findIndex((value) => value >= level)] ?? null;
}
