// Which cases are shown, in which order.
const haystacks = new Map();

function haystackOf(item) {
  let text = haystacks.get(item.at);
  if (text === undefined) {
    const details = detailsOf(item.at);
    if (!details) return `${item.id}\n${item.preview}`.toLowerCase();
    const parts = [item.id, ...details.messages.map(([, content]) => content), details.reference];
    for (const answer of details.answers) {
      parts.push(answer.answer, answer.error, answer.actual === undefined ? null : plain(answer.actual));
      for (const score of answer.scores) parts.push(score.reason, score.error);
    }
    text = parts.filter(Boolean).join("\n").toLowerCase();
    haystacks.set(item.at, text);
  }
  return text;
}

// Reads a few cases at a time while somebody is about to search, so that the first search does not wait for all.
function warm(from = 0) {
  for (const item of cases.slice(from, from + 250)) haystackOf(item);
  if (from + 250 < cases.length) setTimeout(warm, 0, from + 250);
}

const wanted = () => ({
  words: $("q").value.toLowerCase().split(/\s+/).filter(Boolean),
  metric: $("metric").value, judge: $("judge").value, target: $("target").value,
  state: $("state").value, tag: $("tag").value,
  low: $("low").value === "" ? null : Number($("low").value),
  high: $("high").value === "" ? null : Number($("high").value),
  sort: $("filters").elements.sort.value,
});

function stateMatches(state, want) {
  return !want || state === want || (want === "scored" && (state === "passed" || state === "failed"));
}

function cellMatches(cell, want) {
  return seriesKeys.every((key) => !want[key] || cell.series[key] === want[key])
    && stateMatches(cell.state, want.state)
    && (want.low === null || (cell.score !== null && cell.score >= want.low))
    && (want.high === null || (cell.score !== null && cell.score <= want.high));
}

// A tag stands for the tags below it too: "A" finds "A > B".
const tagMatches = (item, tag) => !tag || item.tags.some((own) => own === tag || own.startsWith(`${tag} > `));

// A score turned so that more is better, or null.
function turned(cell) {
  if (cell.score === null) return null;
  return lowerIsBetter(cell.series.metric) ? 1 - cell.score : cell.score;
}

// The score by which a case is ordered: its worst or best matching one.
function rank(cells, sort) {
  const scores = cells.map(turned).filter((score) => score !== null);
  if (!scores.length) return null;
  return sort === "worst" ? Math.min(...scores) : Math.max(...scores);
}

function select() {
  const want = wanted();
  const anyCell = seriesKeys.every((key) => !want[key]) && !want.state && want.low === null && want.high === null;
  const found = [];
  for (const item of cases) {
    if (!tagMatches(item, want.tag)) continue;
    const cells = anyCell ? item.cells : item.cells.filter((cell) => cellMatches(cell, want));
    if (!anyCell && !cells.length) continue;
    if (want.words.length && !want.words.every((word) => haystackOf(item).includes(word))) continue;
    found.push({ item, cells, rank: want.sort === "input" ? null : rank(cells, want.sort) });
  }
  if (want.sort !== "input") {
    const sign = want.sort === "worst" ? 1 : -1;
    // What has no score has no place in the order and stands at the end.
    found.sort((a, b) => (a.rank === null) - (b.rank === null) || sign * (a.rank - b.rank) || a.item.at - b.item.at);
  }
  return found;
}
