// One case: question, answers with their scores, reference, contexts.
const several = (key) => new Set(legend.series.map((series) => series[key])).size > 1;

function part(title, ...children) {
  return h("section", { class: "part" }, h("h3", {}, title), children);
}

function folded(title, ...children) {
  return h("details", { class: "part" }, h("summary", {}, title), children);
}

const text = (value, extra = "") => h("div", { class: `text ${extra}` }, plain(value));

function gauge(score, state) {
  if (typeof score.score !== "number" || score.score < 0 || score.score > 1) return null;
  const bars = [svg("rect", { class: "track", width: 100, height: 5 }), svg("rect", { class: "fill", width: 100 * score.score, height: 5 })];
  if (score.threshold >= 0 && score.threshold <= 1) {
    bars.push(svg("rect", { class: "mark", x: Math.min(99.6, 100 * score.threshold), width: 0.4, height: 5 }));
  }
  return svg("svg", { class: `gauge ${state}`, viewBox: "0 0 100 5", preserveAspectRatio: "none", "aria-hidden": "true" }, ...bars);
}

function scoreMeta(score, series) {
  const said = [];
  if (series.judge) said.push(series.judge);
  if (several("repeat")) said.push(`repeat ${series.repeat}`);
  if (series.member_of) said.push(`member of ${series.member_of}`);
  if (score.threshold !== undefined) said.push(`threshold ${format(score.threshold)}${lowerIsBetter(series.metric) ? ", lower is better" : ""}`);
  if (score.path) said.push(score.path);
  if (score.cost_usd) said.push(`$${score.cost_usd.toPrecision(2)}`);
  if (score.value !== undefined && typeof score.value !== "object" && score.value !== score.score) said.push(`value ${plain(score.value)}`);
  return said.join(" · ");
}

function scoreBlock(score) {
  const series = legend.series[score.series];
  const state = score.passed === undefined ? score.status : score.passed ? "passed" : "failed";
  const why = score.error ? `${score.error_type ? `${score.error_type}: ` : ""}${score.error}` : score.reason;
  const steps = score.steps?.length
    ? h("details", { open: score.steps.some((said) => Array.isArray(said.reply)) ? "" : null },
      h("summary", {}, `${score.steps.length} ${score.steps.length === 1 ? "step" : "steps"} of the judge`), score.steps.map(step))
    : null;
  return h("div", { class: "score" },
    h("div", { class: "score-head" },
      h("span", { class: "metric", title: legend.metrics[series.metric]?.description }, series.metric),
      h("span", { class: `state ${state}` }, marks[state] ? `${marks[state]} ${state}` : state),
      h("span", { class: "figure" }, typeof score.score === "number" ? score.score.toFixed(3) : "–")),
    gauge(score, state),
    h("div", { class: "meta" }, scoreMeta(score, series)),
    why ? h("div", { class: "text reason" }, why) : null,
    steps);
}

function contextList(contexts) {
  if (!contexts.length) return h("p", { class: "why" }, "Nothing was found.");
  return h("div", {}, contexts.map((context) => h("div", { class: "context" },
    context.title ? h("div", { class: "title" }, context.title) : null,
    context.path ? h("div", { class: "path" }, context.path) : null,
    h("div", { class: "text" }, context.text))));
}

const turnList = (messages) => messages.map(([role, content]) => h("div", { class: "turn" },
  h("span", { class: "role" }, role), h("div", { class: "text" }, content)));

function answerParts(answer, alone) {
  const noun = answer.answer === undefined && answer.actual !== undefined ? "Actual" : "Answer";
  const title = alone ? noun : `${noun} · ${answer.target}${several("target_repeat") ? ` · repeat ${answer.repeat}` : ""}`;
  const said = answer.answer !== undefined ? text(answer.answer, "said") : null;
  const label = answer.actual !== undefined ? text(answer.actual, "said") : null;
  const failed = answer.error ? h("div", { class: "text state error" }, `${answer.error_type || "error"}: ${answer.error}`) : null;
  const none = said || label || failed ? null : h("p", { class: "why" }, "There is no answer.");
  return [
    answer.messages ? part("Conversation as held", turnList(answer.messages)) : null,
    part(title, said, label, failed, none),
    answer.contexts ? folded(`Contexts (${answer.contexts.length})`, contextList(answer.contexts)) : null,
    part("Scores", answer.scores.length ? answer.scores.map(scoreBlock) : h("p", { class: "why" }, "No metric applied.")),
    answer.metadata && Object.keys(answer.metadata).length ? folded("Metadata", h("pre", {}, JSON.stringify(answer.metadata, null, 2))) : null,
  ];
}

function conversation(messages) {
  const last = messages.map(([role]) => role).lastIndexOf("user");
  const turns = messages.filter((_, i) => i !== last);
  return {
    question: last < 0 ? null : messages[last][1],
    history: turns.length ? part("Conversation before", turnList(turns)) : null,
  };
}

function caseView(item, details) {
  const { question, history } = conversation(details.messages);
  const back = h("button", { type: "button", class: "back" }, "← All cases");
  back.addEventListener("click", close);
  const copy = h("button", { type: "button" }, "Copy link");
  copy.addEventListener("click", () => copyLink(copy));
  const where = legend.datasets.length > 1 ? `${item.dataset} / ${item.id}` : item.id;
  return [
    h("div", { class: "top" }, h("span", { class: "id" }, where), h("span", { class: "actions" }, back, copy)),
    h("h3", { class: "question" }, question ?? (details.brief ? "A conversation with a simulated user" : "(no question)")),
    item.tags.length ? h("div", { class: "tags" }, item.tags.map((tag) => h("span", { class: "tag" }, tag))) : null,
    history,
    details.answers.map((answer) => answerParts(answer, details.answers.length === 1)),
    details.expected !== undefined ? part("Expected", text(details.expected)) : null,
    details.brief !== undefined ? part("Simulated user", text(details.brief)) : null,
    details.reference !== undefined ? part("Reference", text(details.reference)) : null,
    details.contexts ? part(`Contexts (${details.contexts.length})`, contextList(details.contexts)) : null,
    details.vars ? folded("Other columns", h("pre", {}, JSON.stringify(details.vars, null, 2))) : null,
  ].flat(2).filter(Boolean);
}
