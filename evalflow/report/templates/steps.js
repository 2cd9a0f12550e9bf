// What the judge said, step by step: claims with their verdicts, or the fields of one reply.
function probabilityOf(distribution, field, value) {
  const odds = distribution?.[field];
  const share = odds?.[typeof value === "string" ? value : JSON.stringify(value)] ?? odds?.[String(value)];
  return typeof share === "number" ? share : null;
}

const isText = (value) => typeof value === "string" && (value.length > 32 || value.includes(" "));

// Short values become badges, long text a paragraph, lists a list.
function fields(reply, distribution) {
  if (reply === null || typeof reply !== "object") return [h("span", {}, plain(reply))];
  const badges = [];
  const texts = [];
  for (const [name, value] of Object.entries(reply)) {
    if (Array.isArray(value)) texts.push(h("div", {}, Object.keys(reply).length > 1 ? h("h4", {}, name) : null, items(value)));
    else if (isText(value)) texts.push(h("div", { class: "why" }, value));
    else if (value !== null && value !== "") {
      const share = probabilityOf(distribution, name, value);
      badges.push(h("span", { class: "badge" }, `${name} `, h("b", {}, plain(value)), share === null ? "" : ` · p ${share.toFixed(2)}`));
    }
  }
  return [...badges, ...texts];
}

function items(values) {
  if (!values.length) return h("p", { class: "why" }, "none");
  return h("ul", {}, values.map((value) => h("li", {}, fields(value, null))));
}

// A list that a later step goes over one by one is shown there, with what was said of each item.
function goneOverLater(said, later) {
  const lists = Object.values(said.reply ?? {}).filter(Array.isArray);
  const same = (list) => later.some((other) => other.items && JSON.stringify(other.items) === JSON.stringify(list));
  return lists.length === 1 && Object.keys(said.reply).length === 1 && same(lists[0]) ? lists[0].length : null;
}

function step(said, at, steps) {
  const head = h("h4", {}, said.title ?? said.id, said.task ? ` · ${said.task}` : "", said.reasks ? ` · asked again ${said.reasks}×` : "",
    said.mended ? ` · reply mended: ${said.mended.join(", ")}` : "");
  const replies = Array.isArray(said.reply) ? said.reply : null;
  let body = [];
  const count = replies ? null : goneOverLater(said, steps.slice(at + 1));
  if (count !== null) body = [h("p", { class: "why" }, `${count} found, each judged below`)];
  else if (replies) {
    body = [h("ol", {}, replies.map((reply, i) => h("li", {},
      h("div", {}, said.items ? plain(said.items[i]) : ""), fields(reply, said.probabilities?.[i]))))];
  } else if (said.reply !== null && said.reply !== undefined) {
    body = fields(said.reply, said.probabilities?.[0]);
  } else if (!("reply" in said)) { // found without asking: a check, a rule, a part of a composite
    const { id, ...found } = said;
    body = fields(found, null);
  }
  const raw = said.raw ? h("pre", {}, said.raw) : null;
  return h("div", { class: "step" }, head, body, raw);
}
