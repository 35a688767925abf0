"use strict";

// Without this script the tables are complete, in the order of the suite's own tables.

const valueOf = (row, column) => {
  const cell = row.cells[column];
  return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
};

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0);

function sortBy(table, header) {
  const numeric = header.classList.contains("number");
  const first = numeric ? "descending" : "ascending";
  const second = numeric ? "ascending" : "descending";
  const order = header.getAttribute("aria-sort") === first ? second : first;
  for (const other of table.querySelectorAll("th[aria-sort]")) {
    other.removeAttribute("aria-sort");
  }
  header.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => [valueOf(row, header.cellIndex), row]);
  rows.sort(([a], [b]) => sign * compare(a, b));
  body.append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const header of table.tHead.querySelectorAll("th[scope=col]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortBy(table, header));
    header.append(button);
  }
}

function filter(form, rows) {
  const words = form.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fields = Array.from(form.querySelectorAll("select")).filter((select) => select.value);
  const shown = rows.filter(({ row, text }) => {
    row.hidden = !(
      words.every((word) => text.includes(word)) &&
      fields.every((select) => row.dataset[select.dataset.field] === select.value)
    );
    return !row.hidden;
  });
  const calls = (some) => some.reduce((sum, { row }) => sum + Number(row.dataset.calls), 0).toLocaleString("en");
  form.querySelector("output").value =
    `${shown.length} of ${rows.length} ${form.dataset.unit}, ${calls(shown)} of ${calls(rows)} calls`;
}

for (const form of document.querySelectorAll("form.filters")) {
  const table = document.getElementById(form.dataset.table);
  const rows = Array.from(table.tBodies[0].rows, (row) => ({
    row,
    text: Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase(),
  }));
  form.hidden = false;
  form.addEventListener("input", () => filter(form, rows));
  form.addEventListener("submit", (event) => event.preventDefault());
  filter(form, rows);
}
