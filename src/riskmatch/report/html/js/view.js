// What is being looked at: a run, the domains that are ticked, a step; and the charts that follow.

const PAGE = JSON.parse(document.getElementById("page-data").textContent);
const CHARTS = {}; // by the name in data-chart: a function from a run to the nodes that show it
const view = { run: 0, hidden: new Set(), steps: PAGE.runs.map((run) => run.snapshots.length - 1) };

function article() {
  return document.querySelector(`article[data-run="${view.run}"]`);
}

function chosen(run) {
  return run.domains.filter((domain) => !view.hidden.has(domain));
}

function snapshot(run) {
  return run.snapshots[view.steps[view.run]];
}

function draw(box) {
  const run = PAGE.runs[view.run];
  const nodes = run && !chosen(run).length && box.dataset.chart !== "differences"
    ? [sentence("No domain is ticked.")]
    : CHARTS[box.dataset.chart](run, Math.max(240, box.clientWidth));
  // What the reader had opened or closed stays so.
  const open = new Map();
  each("details", (details) => open.set(details.dataset.series, details.open), box);
  box.replaceChildren(...nodes);
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
