"use strict";

// Without this script the tables are complete, in the order of the suite's own tables, and show the calls of all callers.

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

function filter(form, all) {
  const words = form.querySelector("input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const fields = Array.from(form.querySelectorAll("select")).filter((select) => select.value);
  // Rows without calls of the caller that is chosen are not there.
  const rows = all.filter(({ row }) => !row.classList.contains("others"));
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
    text: Array.from(row.cells, (cell) => (cell.matches(".origins") ? "" : cell.textContent)).join(" ").toLowerCase(),
  }));
  form.hidden = false;
  form.addEventListener("input", () => filter(form, rows));
  form.addEventListener("submit", (event) => event.preventDefault());
  filter(form, rows);
}

// What stands in the page is kept, and comes back when all calls are shown again.
const kept = new Map();

function write(figure, text) {
  if (!kept.has(figure)) {
    kept.set(figure, [figure.lastChild?.data ?? "", figure.dataset.value]);
  }
  const [before, value] = kept.get(figure);
  if (figure.lastChild?.nodeType === Node.TEXT_NODE) {
    figure.lastChild.data = text ?? before;
  } else {
    figure.append(text ?? before);
  }
  const shown = figure.lastChild.data;
  if (value !== undefined) {
    figure.dataset.value = text === undefined ? value : shown.replace(/[,%]/g, "");
  }
  figure.querySelector("rect")?.setAttribute("width", shown);
}

function show(element, caller) {
  const texts = caller === undefined ? [] : JSON.parse(element.dataset.callers)[caller];
  if (element.matches("td")) {
    if (!kept.has(element)) {
      kept.set(element, [element.textContent, element.className]);
    }
    const [text, level] = caller === undefined ? kept.get(element) : texts ?? ["", ""];
    element.textContent = text;
    element.className = level;
    return;
  }
  element.classList.toggle("others", texts === undefined);
  const figures = Array.from(element.querySelectorAll("[data-figure]"));
  const own = figures.filter((figure) => figure.closest("[data-callers]") === element);
  own.forEach((figure, number) => write(figure, texts?.[number]));
  if ("calls" in element.dataset) {
    element.dataset.calls = own.find((figure) => figure.dataset.figure === "calls").dataset.value;
  }
}

function choose(dump, button) {
  const chosen = button && button.getAttribute("aria-pressed") === "false" ? button : undefined;
  for (const other of dump.querySelectorAll("button[aria-pressed]")) {
    other.setAttribute("aria-pressed", String(other === chosen));
  }
  for (const element of dump.querySelectorAll("[data-callers]")) {
    show(element, chosen?.dataset.caller);
  }
  for (const line of dump.querySelectorAll(".chosen")) {
    line.hidden = !chosen;
    line.querySelector("strong").textContent = chosen?.textContent ?? "";
  }
  for (const form of dump.querySelectorAll("form.filters")) {
    form.dispatchEvent(new Event("input"));
  }
}

for (const dump of document.querySelectorAll("section.dump")) {
  for (const header of dump.querySelectorAll("th[data-caller]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.caller = header.dataset.caller;
    button.setAttribute("aria-pressed", "false");
    button.append(...header.childNodes);
    button.addEventListener("click", () => choose(dump, button));
    header.append(button);
  }
  for (const button of dump.querySelectorAll(".chosen button")) {
    button.addEventListener("click", () => choose(dump));
  }
}
document.documentElement.classList.add("scripted");
