// Training domain with the largest mean risk over the steps: one lane per domain.

CHARTS.worst = (run, width) => {
  const { steps, worst } = run.curves;
  const lanes = selectedDomains(run).filter((domain) => worst.includes(domain));
  if (!lanes.length) return [message("No selected domain was the worst at any evaluation.")];
  const [left, laneHeight] = [Math.min(150, width / 3), 24];
  const height = lanes.length * laneHeight + 26;
  const span = [steps[0], steps.at(-1)];
  const px = (step) => left + ((step - span[0]) / (span[1] - span[0] || 1)) * (width - left - 8);
  // An evaluation covers the steps that are closest to it.
  const from = (i) => (i ? (steps[i - 1] + steps[i]) / 2 : span[0]);
  const to = (i) => (i + 1 < steps.length ? (steps[i] + steps[i + 1]) / 2 : span[1]);
  const group = svg("g");
  lanes.forEach((domain, lane) => {
    const y = lane * laneHeight;
    group.append(
      svg("rect", { class: "lane", x: left, y: y + 3, width: width - left - 8, height: laneHeight - 6 }),
      svg("text", { class: "name", x: left - 8, y: y + 16, "text-anchor": "end" },
        shorten(domain, Math.floor(left / 8)), svg("title", {}, domain)));
    worst.forEach((one, i) => {
      if (one !== domain) return;
      const [a, b] = steps.length > 1 ? [px(from(i)), px(to(i))] : [left, width - 8];
      group.append(svg("rect", { class: `fill ${seriesStyle(domain).class}`, "data-series": domain,
        x: a, y: y + 3, width: Math.max(1, b - a), height: laneHeight - 6 },
      svg("title", {}, `${domain} at step ${steps[i]}`)));
    });
  });
  for (const step of ticks(span[0], span[1] || span[0] + 1, Math.max(2, Math.round(width / 120)))) {
    group.append(svg("text", { class: "step", x: px(step), y: height - 8, "text-anchor": "middle" }, number(step)));
  }
  const counts = lanes.map((domain) => `${domain} ${worst.filter((one) => one === domain).length} times`);
  return [image("Worst domain over the steps", `${counts.join(", ")}.`, width, height, group)];
};
