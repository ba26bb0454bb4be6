// The controls: which run, which domains, which step, light or dark. Last, the first drawing.

function showRun(place) {
  view.run = place;
  each("article[data-run]", (node) => { node.hidden = Number(node.dataset.run) !== place; });
  each("a[data-part]", (link) => { link.href = `#run-${place}-${link.dataset.part}`; });
  each("#domains label", (label) => {
    const domain = PAGE.domains[label.querySelector("input").value];
    label.hidden = !PAGE.runs[place].domains.includes(domain);
  });
  drawAll();
}

function domainBoxes(fieldset) {
  const list = html("div", { class: "boxes" });
  PAGE.domains.forEach((domain, place) => {
    const box = html("input", { type: "checkbox", value: place, checked: true });
    box.addEventListener("change", () => {
      view.hidden[box.checked ? "delete" : "add"](domain);
      drawAll();
    });
    const test = PAGE.runs.every((run) => isTest(run, domain) || !run.domains.includes(domain));
    list.append(html("label", {}, box, swatch(domain), name(domain),
      test ? html("span", { class: "note" }, "test") : null));
  });
  const all = (text, checked) => {
    const button = html("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      each("input", (box) => { box.checked = checked; }, list);
      view.hidden = new Set(checked ? [] : PAGE.domains);
      drawAll();
    });
    return button;
  };
  fieldset.append(list, html("div", { class: "all" }, all("all", true), all("none", false)));
  fieldset.hidden = PAGE.domains.length < 2;
}

function slider(input) {
  const place = Number(input.dataset.slider);
  const output = input.parentElement.querySelector("output");
  const tell = () => {
    const { step } = PAGE.runs[place].snapshots[input.value];
    output.value = `step ${step}`;
    input.setAttribute("aria-valuetext", `step ${step}`);
  };
  input.max = PAGE.runs[place].snapshots.length - 1;
  input.value = input.max;
  input.parentElement.hidden = input.max < 1;
  tell();
  input.addEventListener("input", () => {
    view.steps[place] = Number(input.value);
    tell();
    drawStep();
  });
}

function theme(button) {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => button.setAttribute("aria-pressed", dark());
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
}

function start() {
  each("table.sortable", sortable);
  each("[data-needs-script]", (node) => { node.hidden = false; });
  domainBoxes(document.getElementById("domains"));
  each("input[data-slider]", slider);
  theme(document.getElementById("theme"));
  const select = document.getElementById("run");
  if (select) select.addEventListener("change", () => showRun(Number(select.value)));
  if (PAGE.runs.length) showRun(select ? Number(select.value) : 0);
  each("[data-chart=differences]", draw);
  let width = innerWidth;
  addEventListener("resize", () => requestAnimationFrame(() => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawAll();
    each("[data-chart=differences]", draw);
  }));
}

start();
