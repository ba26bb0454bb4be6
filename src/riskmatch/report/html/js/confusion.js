// Confusion matrices by domain; with many classes, the most confused pairs.

const MAX_OPEN_CELLS = 4000;

CHARTS.confusion = (run) => {
  const domains = selectedDomains(run).filter((domain) => own(run.confusion, domain));
  if (!domains.length) return [message("No selected domain has a confusion matrix.")];
  const few = domains.length * run.classes.length ** 2 <= MAX_OPEN_CELLS;
  const first = domains.find((domain) => isTest(run, domain)) ?? domains[0];
  return domains.map((domain) => {
    const { counts, pairs } = run.confusion[domain];
    const card = html("details", { class: "card", "data-series": domain },
      html("summary", {}, swatch(domain), name(domain), html("span", { class: "note" },
        [isTest(run, domain) ? "test" : "", counts ? accuracyText(counts) : ""].filter(Boolean).join(" · "))));
    const show = () => card.append(counts ? matrix(run, domain, counts) : confusedPairs(run, domain, pairs));
    card.addEventListener("toggle", show, { once: true });
    card.open = few || domain === first;
    return card;
  });
};

function accuracyText(counts) {
  const all = counts.flat().reduce((a, b) => a + b, 0);
  return `${percent(all ? counts.reduce((sum, row, i) => sum + row[i], 0) / all : null)} % correct`;
}

function matrix(run, domain, counts) {
  const head = run.classes.map((label) => html("th", { scope: "col" }, html("span", {}, name(label))));
  const rows = counts.map((row, i) => {
    const all = row.reduce((a, b) => a + b, 0);
    return html("tr", {}, html("th", { scope: "row" }, name(run.classes[i] ?? String(i))),
      ...row.map((count, j) => {
        const node = html("td", { class: i === j ? "correct" : null }, String(count));
        node.style.setProperty("--share", all ? count / all : 0);
        return node;
      }));
  });
  const caption = `Confusion in ${shorten(domain, 60)}`;
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    html("table", { class: "heat confusion" }, html("caption", {}, caption),
      html("thead", {}, html("tr", {}, html("td"), ...head)), html("tbody", {}, ...rows)));
}

function confusedPairs(run, domain, pairs) {
  if (!pairs.length) return message("All samples of this domain are classified correctly.");
  return table(`Most confused pairs of classes in ${shorten(domain, 60)}`,
    ["true class", "predicted class", "samples", "% of the class"],
    pairs.map(([truth, predicted, count, all]) =>
      [name(run.classes[truth]), name(run.classes[predicted]), count, Number(((100 * count) / all).toFixed(1))]));
}
