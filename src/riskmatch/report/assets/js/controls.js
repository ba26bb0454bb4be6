// Controls: run, domains, step, theme. The last line draws the page.

function showRun(number) {
  view.run = number;
  each("article[data-run]", (node) => { node.hidden = Number(node.dataset.run) !== number; });
  each("a[data-section]", (link) => {
    const id = `run-${number}-${link.dataset.section}`;
    link.href = `#${id}`;
    link.parentElement.hidden = !document.getElementById(id);
  });
  each("#domains label", (label) => {
    const domain = PAGE.domains[label.querySelector("input").value];
    label.hidden = !PAGE.runs[number].domains.includes(domain);
  });
  drawAll();
}

function domainCheckboxes(fieldset) {
  const list = html("div", { class: "boxes" });
  PAGE.domains.forEach((domain, number) => {
    const box = html("input", { type: "checkbox", value: number, checked: true });
    box.addEventListener("change", () => {
      view.hidden[box.checked ? "delete" : "add"](domain);
      drawAll();
    });
    const test = PAGE.runs.every((run) => isTest(run, domain) || !run.domains.includes(domain));
    list.append(html("label", {}, box, swatch(domain), name(domain),
      test ? html("span", { class: "note" }, "test") : null));
  });
  const selectAll = (text, checked) => {
    const button = html("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      each("input", (box) => { box.checked = checked; }, list);
      view.hidden = new Set(checked ? [] : PAGE.domains);
      drawAll();
    });
    return button;
  };
  fieldset.append(list, html("div", { class: "all" }, selectAll("all", true), selectAll("none", false)));
  fieldset.hidden = PAGE.domains.length < 2;
}

function slider(input) {
  const number = Number(input.dataset.slider);
  const output = input.parentElement.querySelector("output");
  const update = () => {
    const { step } = PAGE.runs[number].snapshots[input.value];
    output.value = `step ${step}`;
    input.setAttribute("aria-valuetext", `step ${step}`);
  };
  input.max = PAGE.runs[number].snapshots.length - 1;
  input.value = input.max;
  update();
  input.addEventListener("input", () => {
    view.steps[number] = Number(input.value);
    update();
    drawStep();
  });
}

function theme(button) {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const update = () => button.setAttribute("aria-pressed", dark());
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    update();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  update();
}

function start() {
  each("table.sortable", sortable);
  each("[data-needs-script]", (node) => { node.hidden = false; });
  domainCheckboxes(document.getElementById("domains"));
  each("input[data-slider]", slider);
  theme(document.getElementById("theme"));
  const select = document.getElementById("run");
  if (select) select.addEventListener("change", () => showRun(Number(select.value)));
  if (PAGE.runs.length) showRun(select ? Number(select.value) : 0);
  each("main > section [data-chart]", draw);
  watchTables(document);
  let width = innerWidth;
  addEventListener("resize", () => requestAnimationFrame(() => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawAll();
    each("main > section [data-chart]", draw);
  }));
}

start();
