// How a domain looks wherever it is shown. Seven colours, five dashes and five marks make 35 looks
// in which neighbours differ in all three, so that colour is never the only sign.

const DASHES = [null, "7 3", "2 3", "9 3 2 3", "12 4"];
const MARKS = [
  "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0",
  "M-3.2,-3.2H3.2V3.2H-3.2Z",
  "M0,-4.2L4.2,3.4H-4.2Z",
  "M0,-4.6L4.6,0L0,4.6L-4.6,0Z",
  "M0,4.2L4.2,-3.4H-4.2Z",
];

function look(domain) {
  const place = PAGE.domains.indexOf(domain);
  return { class: `hue-${place % 7}`, dash: DASHES[place % 5], mark: MARKS[place % 5] };
}

function isTest(run, domain) {
  return run.test.includes(domain);
}

function mark(domain, x, y, text) {
  const { class: hue, mark: shape } = look(domain);
  return svg("path", { class: `mark ${hue}`, d: shape, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` },
    text ? svg("title", {}, text) : null);
}

function swatch(domain) {
  const { class: hue, dash } = look(domain);
  return svg("svg", { class: "swatch", viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": true },
    svg("line", { class: `line ${hue}`, x1: 1, x2: 33, y1: 6, y2: 6, "stroke-dasharray": dash }),
    mark(domain, 17, 6));
}

function legend(run, domains, note = () => "") {
  const items = domains.map((domain) =>
    html("li", {}, swatch(domain), name(domain), html("span", { class: "note" },
      [isTest(run, domain) ? "test" : "", note(domain)].filter(Boolean).join(" · "))));
  return html("ul", { class: "legend" }, ...items);
}

// Small charts side by side, as many in a row as there is room for; `make` gets one and its width.
function panels(parts, width, { least, most }, make) {
  const columns = Math.max(1, Math.min(parts.length, Math.floor((width + 24) / (least + 24))));
  const wide = Math.min(most, Math.floor((width - 24 * (columns - 1)) / columns));
  return html("div", { class: "panels" }, ...parts.map((part) => {
    const figure = html("figure", {}, ...make(part, wide));
    figure.style.width = `${wide}px`;
    return figure;
  }));
}

// Names at the right ends of lines, pushed apart so that none covers another.
function endLabels(frame, ends) {
  const gap = 14;
  const placed = ends.toSorted((a, b) => a.y - b.y);
  placed.forEach((end, i) => {
    end.at = Math.max(end.y, i ? placed[i - 1].at + gap : frame.top);
  });
  let floor = frame.bottom;
  for (const end of placed.toReversed()) {
    end.at = Math.min(end.at, floor);
    floor = end.at - gap;
    frame.plot.append(
      svg("line", { class: "leader", x1: frame.right + 2, x2: frame.right + 10, y1: end.y, y2: end.at }),
      svg("text", { class: end.strong ? "end strong" : "end", x: frame.right + 12, y: end.at + 4 },
        short(end.text, 14), svg("title", {}, end.text)));
  }
}
