// Elements and number formats. Text from the data becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const MISSING = "—";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function each(selector, action, root = document) {
  root.querySelectorAll(selector).forEach(action);
}

// Own property only: names come from the data and may be "toString".
function own(object, name) {
  return object && Object.hasOwn(object, name) ? object[name] : undefined;
}

function known(value) {
  return value !== null && value !== undefined;
}

// Three significant digits, all digits of the integer part, a Unicode minus sign.
function number(value) {
  if (!known(value)) return MISSING;
  let text = Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  if (value && Math.abs(value) < 1e-3) text = String(Number(value.toPrecision(2)).toExponential());
  return text.replaceAll("-", "−");
}

function percent(value) {
  return known(value) ? points(100 * value) : MISSING;
}

// Percentage points with one decimal, rounded as in tables: 81.25, a tie, to the even 81.2.
function points(value) {
  if (!known(value)) return MISSING;
  const exact = Number(value.toFixed(6));
  const tie = Number.isInteger(4 * exact) && !Number.isInteger(2 * exact);
  const down = Math.trunc(10 * exact);
  return (tie && down % 2 === 0 ? down / 10 : exact).toFixed(1).replace("-", "−");
}

// A value of the metric of the page in the unit of tables, and the label of its axis.
function metricText(value) {
  if (PAGE.metric.percent) return points(value);
  return known(value) ? value.toFixed(PAGE.metric.decimals).replace("-", "−") : MISSING;
}

function metricLabel() {
  return PAGE.metric.title + (PAGE.metric.percent ? " (%)" : "");
}

function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function shorten(text, limit) {
  const characters = Array.from(text);
  return characters.length > limit ? characters.slice(0, limit - 1).join("") + "…" : text;
}

// A name in its own text direction, isolated from the text around it.
function name(text) {
  return html("bdi", { title: text.length > 16 ? text : null }, shorten(text, 60));
}

function cell(tag, value, attributes = {}) {
  const shown = typeof value === "number" ? number(value) : (value ?? MISSING);
  const data = typeof value === "number" ? value : null;
  const brief = typeof value === "string" && value.length < 18 ? "brief" : null;
  return html(tag, { "data-value": data, class: data === null ? brief : "number", ...attributes }, shown);
}

function table(caption, columns, rows) {
  const head = html("tr", {}, ...columns.map((column) => html("th", { scope: "col" }, column)));
  const body = rows.map(([first, ...rest]) =>
    html("tr", {}, cell("th", first, { scope: "row" }), ...rest.map((value) => cell("td", value))));
  const node = html("table", { class: "sortable" }, html("caption", {}, caption),
    html("thead", {}, head), html("tbody", {}, ...body));
  sortable(node);
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, node);
}

// Table of the values of a chart, filled when it is opened.
function valueTable(caption, columns, rows, title = "Values") {
  const node = html("details", { class: "numbers" }, html("summary", {}, title));
  node.addEventListener("toggle", () => {
    node.append(table(caption, columns, rows()));
    watchTables(node);
  }, { once: true });
  return node;
}

function message(text) {
  return html("p", { class: "absent" }, text);
}
