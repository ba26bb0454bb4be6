// Paired differences of methods from their baseline, with confidence intervals and adjusted p-values.

CHARTS.differences = (_, width) => {
  const { title, higher } = PAGE.metric;
  const rows = PAGE.differences.filter((row) => known(row.mean));
  if (!rows.length) return [message("No two methods share a test domain and a trial, so there are no pairs to compare.")];
  const base = rows.every((row) => row.against === rows[0].against) ? rows[0].against : null;
  const longest = Math.max(...rows.map((row) => row.method.length));
  const [left, rowHeight, top] = [Math.min(Math.max(120, 7.8 * longest + 16), width * (width > 520 ? 0.45 : 0.38)), 34, 36];
  const height = top + rows.length * rowHeight + 40;
  const span = extent(rows.flatMap((row) => [row.mean, row.low, row.high]), 0);
  const pad = 0.06 * (span[1] - span[0]);
  const px = (value) => left + ((value - span[0] + pad) / (span[1] - span[0] + 2 * pad)) * (width - left - 12);
  const bottom = top + rows.length * rowHeight;
  const group = svg("g", { class: "axes" });
  for (const value of ticks(...span, Math.max(2, Math.round((width - left) / 90)))) {
    group.append(
      svg("line", { class: "rule", x1: px(value), x2: px(value), y1: top, y2: bottom }),
      svg("text", { x: px(value), y: bottom + 16, "text-anchor": "middle" }, number(value)));
  }
  group.append(
    svg("line", { class: "zero", x1: px(0), x2: px(0), y1: top - 6, y2: bottom }),
    svg("text", { class: "label", x: width - 12, y: height - 6, "text-anchor": "end" }, `${higher ? "higher" : "lower"} ${title} →`),
    svg("text", { class: "label", x: left, y: height - 6 }, `← ${higher ? "lower" : "higher"} ${title}`),
    svg("text", { class: "label", x: px(0), y: 22, "text-anchor": "middle" }, base === null ? "no difference" : shorten(base, 30)));
  rows.forEach((row, i) => {
    const y = top + (i + 0.5) * rowHeight;
    const significant = known(row["adjusted p"]) && row["adjusted p"] < 0.05;
    group.append(svg("text", { class: "name", x: left - 10, y: y + 4, "text-anchor": "end" },
      shorten(row.method, Math.floor((left - 10) / 7.8)), svg("title", {}, row.method)));
    if (known(row.low) && known(row.high)) {
      group.append(svg("line", { class: `interval${significant ? " significant" : ""}`, x1: px(row.low), x2: px(row.high), y1: y, y2: y }));
    }
    group.append(svg("circle", { class: `difference${significant ? " significant" : ""}`, cx: px(row.mean), cy: y, r: 5 },
      svg("title", {}, `${row.method} against ${row.against}: ${metricText(row.mean)}, ${metricText(row.low)} to ${metricText(row.high)} (95 %, ${row.unit}, n = ${row.n})`)));
  });
  const text = rows.map((row) => `${row.method} against ${row.against}: ${metricText(row.mean)}.`).join(" ");
  return [image("Paired differences", text, width, height, group)];
};
