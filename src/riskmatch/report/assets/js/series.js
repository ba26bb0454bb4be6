// Style of each domain in all charts, by its place in its data set, as in figures. Seven colours, five dash patterns and five markers give 35
// styles; neighbours differ in all three, so that colour is never the only cue.

const DASHES = [null, "7 3", "2 3", "9 3 2 3", "12 4"];
const MARKERS = [
  "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0",
  "M-3.2,-3.2H3.2V3.2H-3.2Z",
  "M0,-4.2L4.2,3.4H-4.2Z",
  "M0,-4.6L4.6,0L0,4.6L-4.6,0Z",
  "M0,4.2L4.2,-3.4H-4.2Z",
];

function seriesStyle(domain) {
  const number = own(PAGE.places, domain) ?? PAGE.domains.indexOf(domain);
  return { class: `hue-${number % 7}`, dash: DASHES[number % 5], marker: MARKERS[number % 5] };
}

function isTest(run, domain) {
  return run.test.includes(domain);
}

function marker(domain, x, y, text) {
  const { class: hue, marker: shape } = seriesStyle(domain);
  return svg("path", { class: `mark ${hue}`, d: shape, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` },
    text ? svg("title", {}, text) : null);
}

function swatch(domain) {
  const { class: hue, dash } = seriesStyle(domain);
  return svg("svg", { class: "swatch", viewBox: "0 0 34 12", width: 34, height: 12, "aria-hidden": true },
    svg("line", { class: `line ${hue}`, x1: 1, x2: 33, y1: 6, y2: 6, "stroke-dasharray": dash }),
    marker(domain, 17, 6));
}

function legend(run, domains, note = () => "") {
  const items = domains.map((domain) =>
    html("li", {}, swatch(domain), name(domain), html("span", { class: "note" },
      [isTest(run, domain) ? "test" : "", note(domain)].filter(Boolean).join(" · "))));
  return html("ul", { class: "legend" }, ...items);
}

// Small charts in rows, as many per row as fit; `draw` gets an item and the width of its panel.
function panels(items, width, { minWidth, maxWidth }, draw) {
  const columns = Math.max(1, Math.min(items.length, Math.floor((width + 24) / (minWidth + 24))));
  const panelWidth = Math.min(maxWidth, Math.floor((width - 24 * (columns - 1)) / columns));
  return html("div", { class: "panels" }, ...items.map((item) => {
    const figure = html("figure", {}, ...draw(item, panelWidth));
    figure.style.width = `${panelWidth}px`;
    return figure;
  }));
}

// Names at the right ends of lines, moved apart so that none overlap.
function drawEndLabels(frame, ends) {
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
        shorten(end.text, 14), svg("title", {}, end.text)));
  }
}
