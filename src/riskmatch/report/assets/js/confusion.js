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
        [isTest(run, domain) ? "test" : "", run.samples[domain]].filter(Boolean).join(" · "))));
    const show = () => {
      card.append(counts ? matrix(run, domain, counts) : confusedPairs(run, domain, pairs), classTable(run, domain));
      watchTables(card);
    };
    card.addEventListener("toggle", show, { once: true });
    card.open = few || domain === first;
    return card;
  });
};

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

// Recall and precision of every class, with counts.
function classTable(run, domain) {
  const share = (part, all) => (all ? `${percent(part / all)} (${part} of ${all})` : MISSING);
  return valueTable(`Classes in ${shorten(domain, 60)}`, ["class", "recall (%)", "precision (%)"],
    () => run.confusion[domain].by_class.map(([all, predicted, correct], k) =>
      [name(run.classes[k] ?? String(k)), share(correct, all), share(correct, predicted)]), "Recall and precision by class");
}

function confusedPairs(run, domain, pairs) {
  if (!pairs.length) return message("All samples of this domain are classified correctly.");
  return table(`Most confused pairs of classes in ${shorten(domain, 60)}`,
    ["true class", "predicted class", "samples", "% of the class"],
    pairs.map(([truth, predicted, count, all]) =>
      [name(run.classes[truth]), name(run.classes[predicted]), count, percent(count / all)]));
}
