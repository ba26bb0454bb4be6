// Sort tables by a column: numbers numerically, missing values last.

function sortable(table) {
  each("thead th", (head, column) => {
    if (!head.textContent) return;
    const button = html("button", { type: "button", class: "sort" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      each("thead th", (other) => other.removeAttribute("aria-sort"), table);
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = Array.from(table.tBodies[0].rows, (row) => [key(row.cells[column]), row]);
      rows.sort(([a], [b]) => compare(a, b, descending ? -1 : 1));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  }, table);
}

function key(cell) {
  const text = cell.textContent.trim();
  const value = parseFloat(cell.dataset.value ?? text.replace("−", "-").replaceAll(",", ""));
  return { text, value, missing: text === MISSING || text === "" };
}

function compare(a, b, sign) {
  if (a.missing || b.missing) return a.missing - b.missing;
  if (!Number.isNaN(a.value) && !Number.isNaN(b.value)) return sign * (a.value - b.value);
  return sign * a.text.localeCompare(b.text);
}
