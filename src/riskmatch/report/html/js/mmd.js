// How far apart two domains' risks are, for every pair: a table shaded like a heat map.

CHARTS.mmd = (run) => {
  const { step, mmd } = snapshot(run);
  const places = (mmd ? mmd.domains : []).flatMap((domain, i) => (view.hidden.has(domain) ? [] : [i]));
  if (places.length < 2) return [sentence("Two domains with risks are needed to compare.")];
  const pairs = places.flatMap((i) => places.filter((j) => j !== i).map((j) => mmd.value[i][j]));
  const most = extent(pairs, 0)[1];
  const head = places.map((i) => html("th", { scope: "col" }, name(mmd.domains[i])));
  const rows = places.map((i) => html("tr", {}, html("th", { scope: "row" }, name(mmd.domains[i])),
    ...places.map((j) => (i === j ? html("td", { class: "same" }, MISSING)
      : heat(mmd.value[i][j], mmd.p[i][j], most)))));
  const caption = `MMD² between domains at step ${step}`;
  return [html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    html("table", { class: "heat" }, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, html("td"), ...head)), html("tbody", {}, ...rows)))];
};

function heat(value, p, most) {
  const made = html("td", {}, number(value));
  if (known(p)) made.append(html("small", { class: p < 0.05 ? "apart" : null }, `p ${number(Number(p.toPrecision(2)))}`));
  made.style.setProperty("--share", known(value) ? Math.max(0, value / most) : 0);
  return made;
}
