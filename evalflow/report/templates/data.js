// The index is parsed at once, the details of a case when somebody looks at it.
const $ = (id) => document.getElementById(id);
const legend = JSON.parse($("legend").textContent);
const cases = JSON.parse($("index").textContent).map(([id, dataset, preview, tags, flat], at) => {
  const cells = [];
  for (let i = 0; i < flat.length; i += 3) cells.push({ series: legend.series[flat[i]], state: legend.states[flat[i + 1]], score: flat[i + 2] });
  return { at, id, dataset: legend.datasets[dataset], preview, tags: tags.map((tag) => legend.tags[tag]), cells };
});
const blocks = new Map();
const elements = document.getElementsByClassName("block");

const unpacks = "DecompressionStream" in window;

// The lines of a block, which is compressed and in base64.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const lines = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
  return (await lines.text()).split("\n");
}

// The lines of a case's block, or null until they are read; `arrived` is called then.
function linesOf(at) {
  const number = Math.floor(at / legend.block);
  if (!blocks.has(number)) {
    const complete = number + 1 < elements.length || document.readyState !== "loading";
    if (!complete || !elements[number] || !unpacks) return null;
    blocks.set(number, null);
    unpacked(elements[number].textContent).then((lines) => {
      blocks.set(number, lines);
      arrived();
    });
  }
  return blocks.get(number);
}

function detailsOf(at) {
  const lines = linesOf(at);
  return lines && JSON.parse(lines[at % legend.block]);
}

const seriesKeys = ["metric", "judge", "target"];
const known = Object.fromEntries(seriesKeys.map((key) => [key, [...new Set(legend.series.map((s) => s[key]).filter((v) => v !== null))]]));
const lowerIsBetter = (metric) => legend.metrics[metric]?.direction === "lower_is_better";

// An element with attributes and children; strings become text, never markup.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const format = (value) => (typeof value === "number" ? String(Number(value.toFixed(3))) : String(value));
const plain = (value) => (typeof value === "string" ? value : typeof value === "number" ? format(value) : JSON.stringify(value));
