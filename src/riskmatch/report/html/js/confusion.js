// What was taken for what: a matrix per domain, or the most confused pairs where classes are many.

const MANY_CELLS = 4000;

CHARTS.confusion = (run) => {
  const domains = chosen(run).filter((domain) => own(run.confusion, domain));
  if (!domains.length) return [sentence("None of the ticked domains has a confusion matrix.")];
  const few = domains.length * run.classes.length ** 2 <= MANY_CELLS;
  const first = domains.find((domain) => isTest(run, domain)) ?? domains[0];
  return domains.map((domain) => {
    const { counts, pairs } = run.confusion[domain];
    const made = html("details", { class: "card", "data-series": domain },
      html("summary", {}, swatch(domain), name(domain), html("span", { class: "note" },
        [isTest(run, domain) ? "test" : "", counts ? right(counts) : ""].filter(Boolean).join(" · "))));
    const show = () => made.append(counts ? matrix(run, domain, counts) : confused(run, domain, pairs));
    made.addEventListener("toggle", show, { once: true });
    made.open = few || domain === first;
    return made;
  });
};

function right(counts) {
  const all = counts.flat().reduce((a, b) => a + b, 0);
  return `${percent(all ? counts.reduce((sum, row, i) => sum + row[i], 0) / all : null)} % right`;
}

function matrix(run, domain, counts) {
  const head = run.classes.map((label) => html("th", { scope: "col" }, html("span", {}, name(label))));
  const rows = counts.map((row, i) => {
    const all = row.reduce((a, b) => a + b, 0);
    return html("tr", {}, html("th", { scope: "row" }, name(run.classes[i] ?? String(i))),
      ...row.map((count, j) => {
        const made = html("td", { class: i === j ? "right" : null }, String(count));
        made.style.setProperty("--share", all ? count / all : 0);
        return made;
      }));
  });
  const caption = `Confusion in ${short(domain, 60)}: rows are true classes, columns what was predicted`;
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    html("table", { class: "heat confusion" }, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, html("td"), ...head)), html("tbody", {}, ...rows)));
}

function confused(run, domain, pairs) {
  if (!pairs.length) return sentence("No sample of this domain was confused.");
  return table(`The most confused pairs of classes in ${short(domain, 60)}`,
    ["true class", "taken for", "samples", "% of the class"],
    pairs.map(([truth, taken, count, all]) =>
      [name(run.classes[truth]), name(run.classes[taken]), count, Number(((100 * count) / all).toFixed(1))]));
}
