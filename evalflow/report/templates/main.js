// Wires filters, list, detail, address and keyboard together.
const narrow = matchMedia("(max-width: 900px)");

function linkTo(item) {
  const dataset = legend.datasets.length > 1 ? `&dataset=${encodeURIComponent(item.dataset)}` : "";
  return `#case=${encodeURIComponent(item.id)}${dataset}`;
}

async function copyLink(button) {
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy it from the address bar";
  }
}

let arriving = false;
let awaited = null; // the case to show once its details are read

const missing = unpacks ? "Still reading the file …" : "This browser is too old to show single cases. cases.jsonl has them.";

function view(item) {
  const details = detailsOf(item.at);
  awaited = details ? null : item;
  $("detail").replaceChildren(...(details ? caseView(item, details) : [h("p", { class: "empty" }, missing)]));
  $("detail").scrollTop = 0;
  if (!details && unpacks) setTimeout(() => selected === item && view(item), 50);
  else if (arriving) {
    // Only now is the page tall enough to scroll that far.
    arriving = false;
    $("explorer").scrollIntoView();
  }
}

function show(item, byHand) {
  selected = item;
  $("explorer").classList.add("reading");
  if (byHand) history.replaceState(null, "", linkTo(item));
  view(item);
  reveal(item);
  draw();
  if (byHand && narrow.matches) $("explorer").scrollIntoView();
}

function close() {
  $("explorer").classList.remove("reading");
  if (selected) reveal(selected);
  draw();
  list.focus({ preventScroll: true });
}

// Follows #case=<id>, on load and whenever the address changes.
function follow() {
  const parameters = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const id = parameters.get("case");
  if (id === null) return;
  const dataset = parameters.get("dataset");
  const item = cases.find((candidate) => candidate.id === id && (dataset === null || candidate.dataset === dataset));
  arriving = item !== undefined;
  if (item) show(item, false);
  else $("detail").replaceChildren(h("p", { class: "empty" }, `There is no case ${id} in this report.`));
  $("explorer").classList.add("reading");
  $("explorer").scrollIntoView();
}

function options(id, first, values) {
  $(id).replaceChildren(h("option", { value: "" }, first), ...values.map((value) => h("option", { value }, value)));
  $(id).closest("label").hidden = values.length < (id === "judge" || id === "target" ? 2 : 1);
}

// Every tag, and every tag above one: "A > B" gives "A" too.
function allTags() {
  const names = new Set();
  for (const tag of legend.tags) tag.split(" > ").forEach((_, i, parts) => names.add(parts.slice(0, i + 1).join(" > ")));
  return [...names].sort();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest?.("input:not([type=radio]), select, textarea");
  if (event.key === "Escape") {
    if (event.target === $("q") && $("q").value) { $("q").value = ""; refresh(); } else if (typing) typing.blur();
    else if (selected) close();
  } else if (typing) return;
  else if (event.key === "j" || (event.key === "ArrowDown" && event.target === list)) { event.preventDefault(); move(1); }
  else if (event.key === "k" || (event.key === "ArrowUp" && event.target === list)) { event.preventDefault(); move(-1); }
  else if (event.key === "/") { event.preventDefault(); $("filters").scrollIntoView({ block: "nearest" }); $("q").focus(); }
}

options("metric", "all metrics", known.metric);
options("judge", "all judges", known.judge);
options("target", "all targets", known.target);
options("state", "any state", ["passed", "failed", "scored", "undefined", "error", "skipped"]);
options("tag", "all tags", allTags());
for (const id of ["filters", "order", "panes", "keys"]) $(id).hidden = false;

let timer = 0;
$("filters").addEventListener("input", (event) => {
  clearTimeout(timer);
  timer = setTimeout(refresh, event.target.tagName === "INPUT" ? 120 : 0);
});
// A search goes over what has arrived so far, and again when more has.
function arrived() {
  if (awaited && awaited === selected) view(awaited);
  if (!$("q").value) return;
  clearTimeout(timer);
  timer = setTimeout(refresh, 50);
}

$("order").addEventListener("input", refresh);
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("filters").addEventListener("reset", () => setTimeout(refresh, 0));
$("q").addEventListener("focus", () => warm(), { once: true });
list.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
addEventListener("resize", draw);
addEventListener("hashchange", follow);
document.addEventListener("keydown", keys);
// What was asked for while the file was still being read.
document.addEventListener("DOMContentLoaded", () => {
  if ($("q").value) refresh();
});

refresh();
follow();
if (!selected && cases.length && !narrow.matches && !location.hash) show(cases[0], false);
