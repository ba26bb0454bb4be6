// Which training domain had the highest mean risk: a lane for each that ever had it.

CHARTS.worst = (run, width) => {
  const { steps, worst } = run.curves;
  const lanes = chosen(run).filter((domain) => worst.includes(domain));
  if (!lanes.length) return [sentence("None of the ticked domains was ever worst.")];
  const [left, tall] = [Math.min(150, width / 3), 24];
  const height = lanes.length * tall + 26;
  const span = [steps[0], steps.at(-1)];
  const px = (step) => left + ((step - span[0]) / (span[1] - span[0] || 1)) * (width - left - 8);
  // An evaluation stands for the steps nearer to it than to the ones beside it.
  const from = (i) => (i ? (steps[i - 1] + steps[i]) / 2 : span[0]);
  const to = (i) => (i + 1 < steps.length ? (steps[i] + steps[i + 1]) / 2 : span[1]);
  const group = svg("g");
  lanes.forEach((domain, lane) => {
    const y = lane * tall;
    group.append(
      svg("rect", { class: "lane", x: left, y: y + 3, width: width - left - 8, height: tall - 6 }),
      svg("text", { class: "name", x: left - 8, y: y + 16, "text-anchor": "end" },
        short(domain, Math.floor(left / 8)), svg("title", {}, domain)));
    worst.forEach((one, i) => {
      if (one !== domain) return;
      const [a, b] = steps.length > 1 ? [px(from(i)), px(to(i))] : [left, width - 8];
      group.append(svg("rect", { class: `fill ${look(domain).class}`, "data-series": domain,
        x: a, y: y + 3, width: Math.max(1, b - a), height: tall - 6 },
      svg("title", {}, `${domain} at step ${steps[i]}`)));
    });
  });
  for (const step of ticks(span[0], span[1] || span[0] + 1, Math.max(2, Math.round(width / 120)))) {
    group.append(svg("text", { class: "step", x: px(step), y: height - 8, "text-anchor": "middle" }, number(step)));
  }
  const counts = lanes.map((domain) => `${domain} ${worst.filter((one) => one === domain).length} times`);
  return [picture("The worst domain over the steps", `${counts.join(", ")}.`, width, height, group)];
};
