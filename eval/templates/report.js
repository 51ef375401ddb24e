"use strict";
// Everything in `data` was written by models, tools and users: it reaches the page as textContent only.
const { pairs, charts } = JSON.parse(document.getElementById("data").textContent);
const list = document.getElementById("list");
const detail = document.getElementById("detail");
const filters = document.getElementById("filters");
const KINDS = { call: "Call", refuse: "Refuse", ask: "Ask the user", answer: "Answer", malformed: "Malformed" };
const CHANGES = { better: "▲", worse: "▼", changed: "◆", same: "" };
let shown = [];
let chosen = null;

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const child of children) if (child !== null && child !== "") node.append(child); // strings become text nodes
  return node;
}

function chip(side) {
  return make("span", `chip ${side.tone}`, side.result);
}

// ---- the list

function matches(pair, wanted) {
  const change = wanted.get("change");
  return (
    (!wanted.get("label") || pair.label === wanted.get("label")) &&
    (!wanted.get("world") || pair.world === wanted.get("world")) &&
    (!change || (change === "any" ? pair.change !== "same" : pair.change === change)) &&
    pair.query.toLowerCase().includes(wanted.get("text").trim().toLowerCase())
  );
}

function item(pair) {
  const mark = make("span", `mark ${pair.change}`, CHANGES[pair.change]);
  if (pair.change !== "same") mark.append(make("span", "sr", ` ${pair.change}`));
  const results = make("span", "results", chip(pair.before), make("span", "to", "→"), chip(pair.after));
  const head = make("span", "kind", make("span", `label ${pair.label}`, pair.label), make("span", "world", pair.world), mark);
  const button = make("button", "", head, make("span", "query", pair.query), results);
  button.type = "button";
  button.addEventListener("click", () => choose(pair));
  return make("li", "", button);
}

function filter() {
  const wanted = new FormData(filters);
  shown = pairs.filter((pair) => matches(pair, wanted));
  list.replaceChildren(...shown.map(item));
  document.getElementById("count").value = shown.length === 1 ? "1 task" : `${shown.length} tasks`;
  if (!shown.length) {
    chosen = null;
    detail.replaceChildren(make("p", "note", "No task fits these filters."));
  } else choose(shown.includes(chosen) ? chosen : shown.find((pair) => pair.change === "better") || shown[0]);
}

function choose(pair, focus = false) {
  chosen = pair;
  [...list.children].forEach((li, index) => {
    const button = li.firstChild;
    const current = shown[index] === pair;
    button.tabIndex = current ? 0 : -1; // one stop for the tab key, arrows inside
    if (!current) return button.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    if (focus) button.focus({ preventScroll: true });
    list.scrollTop += Math.min(0, li.offsetTop - list.scrollTop);
    list.scrollTop += Math.max(0, li.offsetTop + li.offsetHeight - list.scrollTop - list.clientHeight);
  });
  show(pair);
}

function move(by, focus) {
  if (!shown.length) return;
  const index = Math.min(Math.max(shown.indexOf(chosen) + by, 0), shown.length - 1);
  choose(shown[index], focus);
}

// ---- one task

function show(pair) {
  const head = make(
    "header", "task",
    make("p", "kind", make("span", `label ${pair.label}`, pair.label), make("span", "world", `${pair.world} · ${pair.family.replaceAll("_", " ")}`)),
    make("h3", "", pair.query),
  );
  const sides = make("div", "sides", side("Before", pair.before), side("After", pair.after));
  detail.replaceChildren(head, sides);
}

function side(title, data) {
  const facts = make("ul", "outcome", ...data.facts.map(([tone, text]) => make("li", tone, text)));
  const tokens = data.tokens ? `, ${data.tokens} tokens` : "";
  const end = `ended by ${data.ending}, ${data.turns.length} of ${data.limit} turns${tokens}`;
  const node = make(
    "section", `side ${title.toLowerCase()}`,
    make("h4", "", title, chip(data)),
    make("ol", "turns", ...data.turns.map(turn)),
    data.error && make("p", "part fault", data.error),
    facts,
    make("p", "end", end),
  );
  node.setAttribute("aria-label", `${title}: ${data.result}`);
  return node;
}

function part(kind, title, ...body) {
  return make("div", `part ${kind}`, make("span", "part-name", title), make("div", "body", ...body));
}

function turn(data) {
  return make(
    "li", "turn",
    data.plan && part("plan", "Plan", data.plan),
    data.check !== null ? part("check", "Check", data.check || "(empty)") : null,
    part(`action ${data.kind}`, KINDS[data.kind], ...action(data)),
    ...data.verdicts.map(verdict),
    data.result !== null ? part("result", data.asked ? "Reply" : "Result", data.result) : null,
  );
}

function action(data) {
  if (data.kind !== "call") return [data.text, data.fault && make("p", "fault", data.fault)];
  const rows = data.arguments.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]);
  return [make("code", "tool", data.tool), rows.length ? make("dl", "arguments", ...rows) : "", data.ran ? "" : make("p", "fault", "was not carried out")];
}

function verdict(data) {
  const who = make("p", "who", [data.guard, data.where].filter(Boolean).join(" · "));
  return part(
    `verdict ${data.lets_run ? "passes" : "stops"}`, `Guard: ${data.level}`,
    data.reason, who, ...data.evidence.map((text) => make("p", "evidence", text)),
  );
}

// ---- charts: the legend tells the values at the step under the pointer or the arrow keys

function readout(figure, { steps, xs, texts }) {
  const svg = figure.querySelector("svg.plot");
  const cursor = figure.querySelector(".cursor");
  const outputs = [...figure.querySelectorAll("output")];
  let at = steps.length - 1;
  const go = (index) => {
    at = Math.min(Math.max(index, 0), steps.length - 1);
    cursor.setAttribute("transform", `translate(${xs[at]})`);
    cursor.classList.add("on");
    outputs.forEach((output, i) => { output.value = i < texts.length ? texts[i][at] : steps[at]; });
  };
  const leave = () => {
    cursor.classList.remove("on");
    outputs.forEach((output) => { output.value = output.dataset.last; });
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    go(xs.reduce((best, value, i) => (Math.abs(value - x) < Math.abs(xs[best] - x) ? i : best), 0));
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    go(at + by);
  });
}

// ---- wiring

filters.addEventListener("input", filter);
filters.addEventListener("submit", (event) => event.preventDefault());
list.addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!by) return;
  event.preventDefault();
  move(by, true);
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") move(1, false);
  if (event.key === "k") move(-1, false);
});
document.querySelectorAll("[data-chart]").forEach((figure) => readout(figure, charts[figure.dataset.chart]));
filter();
