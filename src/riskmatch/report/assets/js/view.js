// State of the page: the run, the selected domains, the step; and the charts that depend on it.

const PAGE = JSON.parse(document.getElementById("page-data").textContent);
const CHARTS = {}; // functions from a run and a width to DOM nodes, by the value of data-chart
const view = { run: 0, hidden: new Set(), steps: PAGE.runs.map((run) => run.snapshots.length - 1) };

function article() {
  return document.querySelector(`article[data-run="${view.run}"]`);
}

function selectedDomains(run) {
  return run.domains.filter((domain) => !view.hidden.has(domain));
}

function snapshot(run) {
  return run.snapshots[view.steps[view.run]];
}

function draw(box) {
  const run = PAGE.runs[view.run];
  const aboutDomains = !["differences", "hyperparameters", "matching", "terms"].includes(box.dataset.chart);
  const nodes = run && aboutDomains && !selectedDomains(run).length
    ? [message("No domain is selected.")]
    : CHARTS[box.dataset.chart](run, Math.max(240, box.clientWidth));
  // Keep details open or closed as the reader left them.
  const open = new Map();
  each("details", (details) => open.set(details.dataset.series, details.open), box);
  box.replaceChildren(...nodes);
  watchTables(box);
  each("details", (details) => { details.open = open.get(details.dataset.series) ?? details.open; }, box);
}

function drawAll() {
  each("[data-chart]", draw, article() ?? document.createElement("div"));
  each("[data-domain]", (node) => {
    node.hidden = view.hidden.has(PAGE.domains[node.dataset.domain]);
  });
}

function drawStep() {
  each("[data-step] [data-chart]", draw, article());
}

// Say beside a table that it is larger than its box; not every system shows scroll bars.
const overflow = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const box = target.closest(".scroll");
    box.toggleAttribute("data-wide", box.scrollWidth > box.clientWidth + 1);
    box.toggleAttribute("data-tall", box.scrollHeight > box.clientHeight + 1);
  }
});

function watchTables(root) {
  each(".scroll", (box) => { overflow.observe(box); overflow.observe(box.firstElementChild); }, root);
}
