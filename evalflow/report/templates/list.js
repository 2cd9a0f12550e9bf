// The list draws only the rows that are in sight.
const ROW = 66;
const list = $("list");
const sizer = h("div", { class: "sizer", role: "presentation" });
let found = [];
let selected = null;

const marks = { passed: "✓", failed: "✕", error: "!", undefined: "∅", skipped: "–" };

const urgency = ["failed", "error", "undefined", "skipped", "scored", "passed"];

// The cell that a reader wants to know of first.
function leading(cells) {
  const place = (cell) => urgency.indexOf(cell.state);
  return cells.reduce((best, cell) => (place(cell) - place(best) || (turned(cell) ?? 0) - (turned(best) ?? 0)) < 0 ? cell : best, cells[0]);
}

function chips(cells) {
  if (!cells.length) return [];
  const cell = leading(cells);
  const name = $("metric").value ? "" : `${cell.series.metric} `;
  const text = cell.score === null ? cell.state : format(cell.score);
  const more = cells.length > 1 ? h("span", { class: "more", title: "more scores" }, `+${cells.length - 1}`) : null;
  return [h("span", { class: `chip ${cell.state}` }, marks[cell.state] ? `${marks[cell.state]} ` : "", name, text), more];
}

function row(entry, position) {
  const { item, cells } = entry;
  const element = h("div", {
    class: "item", role: "option", id: `row-${item.at}`, "aria-selected": String(item === selected),
    "aria-posinset": position + 1, "aria-setsize": found.length,
  },
  h("span", { class: "preview" }, item.preview || "(no question)"),
  h("span", { class: "under" }, h("span", { class: "id" }, item.id), chips(cells)));
  element.style.top = `${position * ROW}px`;
  element.addEventListener("click", () => show(item, true));
  return element;
}

function draw() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
  const rows = [];
  for (let i = first; i < last; i += 1) rows.push(row(found[i], i));
  sizer.replaceChildren(...rows);
  if (selected) list.setAttribute("aria-activedescendant", `row-${selected.at}`);
}

function refresh() {
  found = select();
  sizer.style.height = `${found.length * ROW}px`;
  $("count").textContent = found.length === cases.length
    ? `${cases.length.toLocaleString("en")} cases`
    : `${found.length.toLocaleString("en")} of ${cases.length.toLocaleString("en")} cases`;
  list.replaceChildren(found.length ? sizer : h("p", { class: "empty" }, "No case matches these filters."));
  list.scrollTop = 0;
  draw();
}

function reveal(item) {
  const position = found.findIndex((entry) => entry.item === item);
  if (position < 0) return;
  const top = position * ROW;
  const far = top + ROW < list.scrollTop || top > list.scrollTop + list.clientHeight;
  if (far) list.scrollTop = top - list.clientHeight / 3;
  else if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
}

function move(by) {
  const position = found.findIndex((entry) => entry.item === selected);
  const next = found[Math.min(found.length - 1, Math.max(0, position + by))];
  if (next) show(next.item, true);
}
