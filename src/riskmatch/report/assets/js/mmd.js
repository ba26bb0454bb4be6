// MMD² between the risks of all pairs of domains, as a heat map.

CHARTS.mmd = (run) => {
  const { step, mmd } = snapshot(run);
  const places = (mmd ? mmd.domains : []).flatMap((domain, i) => (view.hidden.has(domain) ? [] : [i]));
  if (places.length < 2) return [message("Select at least two domains with risks.")];
  const pairs = places.flatMap((i) => places.filter((j) => j !== i).map((j) => mmd.value[i][j]));
  const largest = extent(pairs, 0)[1];
  const head = places.map((i) => html("th", { scope: "col" }, name(mmd.domains[i])));
  const rows = places.map((i) => html("tr", {}, html("th", { scope: "row" }, name(mmd.domains[i])),
    ...places.map((j) => (i === j ? html("td", { class: "diagonal-cell" }, MISSING)
      : heatCell(mmd.value[i][j], mmd.p[i][j], largest)))));
  const caption = `MMD² between domains at step ${step}`;
  return [html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    html("table", { class: "heat" }, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, html("td"), ...head)), html("tbody", {}, ...rows)))];
};

function heatCell(value, p, largest) {
  const node = html("td", {}, number(value));
  if (known(p)) node.append(html("small", { class: p < 0.05 ? "significant" : null }, `p ${number(Number(p.toPrecision(2)))}`));
  node.style.setProperty("--share", known(value) ? Math.max(0, value / largest) : 0);
  return node;
}
