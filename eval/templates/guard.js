"use strict";
// Everything in `data` was written by models, tools and users: it reaches the page as textContent only.
const cases = JSON.parse(document.getElementById("data").textContent);
const list = document.getElementById("list");
const detail = document.getElementById("detail");
const filters = document.getElementById("filters");
const SVG = "http://www.w3.org/2000/svg";
const STATES = { holds: ["yes", "✓"], "does not hold": ["no", "✕"], "not decided": ["open", "?"] };
let shown = [];
let chosen = null;
let redraw = () => {};

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const child of children) if (child !== null && child !== "") node.append(child); // strings become text nodes
  return node;
}

function verdictChip(data) {
  return make("span", `chip ${data.verdict === "misaligned" ? "bad" : "good"}`, data.verdict === "misaligned" ? "✕ misaligned" : "✓ aligned");
}

const where = (data) => [data.stage && (/^I+$/.test(data.stage) ? `stage ${data.stage}` : data.stage), data.relation].filter(Boolean).join(" · ");

// ---- the list

function matches(data, wanted) {
  const text = wanted.get("text").trim().toLowerCase();
  return ["verdict", "label", "stage", "relation"].every((key) => !wanted.get(key) || data[key] === wanted.get(key)) && `${data.id}\n${data.query}`.toLowerCase().includes(text);
}

function item(data) {
  const head = make("span", "kind", verdictChip(data), make("span", "world", where(data)));
  const button = make("button", "", head, make("span", "query", data.query), make("span", "results", data.run ? `${data.id}, run ${data.run + 1}` : data.id));
  button.type = "button";
  button.addEventListener("click", () => choose(data));
  return make("li", "", button);
}

function filter() {
  const wanted = new FormData(filters);
  shown = cases.filter((data) => matches(data, wanted));
  list.replaceChildren(...shown.map(item));
  document.getElementById("count").value = shown.length === 1 ? "1 case" : `${shown.length} cases`;
  if (shown.length) choose(shown.includes(chosen) ? chosen : shown[0]);
  else {
    chosen = null;
    detail.replaceChildren(make("p", "note", "No case fits these filters."));
  }
}

function choose(data, focus = false) {
  chosen = data;
  [...list.children].forEach((li, index) => {
    const button = li.firstChild;
    const current = shown[index] === data;
    button.tabIndex = current ? 0 : -1; // one stop for the tab key, arrows inside
    if (!current) return button.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    if (focus) button.focus({ preventScroll: true });
    list.scrollTop += Math.min(0, li.offsetTop - list.scrollTop);
    list.scrollTop += Math.max(0, li.offsetTop + li.offsetHeight - list.scrollTop - list.clientHeight);
  });
  show(data, data.calls.find((call) => call.at === data.step) || data.calls[data.calls.length - 1]);
}

// ---- one case

function show(data, call) {
  const facts = [data.label === "no label" ? data.label : `label: ${data.label}`, `${data.checked} of ${data.turns} turns checked`, data.excluded && `does not count: ${data.excluded}`];
  const head = make(
    "header", "task",
    make("p", "kind", verdictChip(data), make("span", "world", where(data))),
    make("h3", "", data.query),
    make("p", "small", facts.filter(Boolean).join(" · ")),
  );
  const tabs = data.calls.map((one) => {
    const button = make("button", "", `${one.stops ? "✕" : "✓"} turn ${one.at + 1}: ${one.tool}`);
    button.type = "button";
    button.setAttribute("aria-pressed", one === call);
    button.addEventListener("click", () => show(data, one));
    return button;
  });
  detail.replaceChildren(head, tabs.length > 1 ? make("div", "calls", ...tabs) : "", ...(call ? callView(call) : [make("p", "note", "Nothing was checked.")]));
  for (const pre of detail.querySelectorAll("pre")) pre.scrollTop = (pre.querySelector("mark")?.offsetTop || 0) - 40;
  redraw();
}

function refs(marks) {
  return marks.length ? make("span", "refs", ...marks.map(ref)) : "";
}

function ref({ number, source, origin }) {
  const link = make("a", `ref ${origin}`, `${number} ${source} (${origin})`);
  link.href = `#mark-${number}`;
  return link;
}

function state(found) {
  const [tone, sign] = STATES[found] || ["open", "–"];
  return make("span", `state ${tone}`, `${sign} ${found}`);
}

function callView(call) {
  const lines = document.createElementNS(SVG, "svg");
  lines.setAttribute("class", "lines");
  lines.setAttribute("aria-hidden", "true");
  const traced = make("div", "traced", make("div", "", callBox(call)), make("div", "", ...call.sources.map(source)), lines);
  redraw = () => draw(traced, lines);
  new ResizeObserver(redraw).observe(traced);
  return [traced, findings(call)];
}

function callBox(call) {
  const verdict = make(
    "div", `part verdict ${call.stops ? "stops" : "passes"}`,
    make("span", "part-name", `Guard: ${call.level}`),
    make("div", "body", call.reason, call.question && make("p", "who", `Asks: ${call.question}`), make("p", "who", where(call)), refs(call.evidence), ...call.said.map((text) => make("p", "evidence", text))),
  );
  verdict.dataset.marks = JSON.stringify(call.evidence);
  const kind = call.changes ? "changes the environment" : "reads only";
  return make(
    "section", "box call",
    make("h4", "", make("code", "tool", call.tool), make("span", "small", ` ${kind}${call.label && `, labelled ${call.label}`}`)),
    call.plan && make("div", "part plan", make("span", "part-name", "Plan"), make("div", "body", call.plan)),
    ...call.arguments.map(argument),
    verdict,
  );
}

function argument(data) {
  const node = make("div", "value", make("span", "name", data.name), make("code", "", data.value), make("span", "", state(data.found)), refs(data.marks));
  node.dataset.marks = JSON.stringify(data.marks);
  return node;
}

function source(data) {
  const head = [data.id, data.origin, data.made_by && `by ${data.made_by}`].filter(Boolean).join(" · ");
  const text = make("pre", "", ...data.parts.map((part) => stretch(part, data.origin)));
  text.tabIndex = 0; // long ones scroll
  const quoted = data.quoted.map((part) => make("p", "small", "quoted, at no certain place: ", stretch(part, data.origin)));
  const cited = data.quoted.length || data.parts.some((part) => part.marks?.length);
  const node = make("section", `box source ${data.origin}`);
  node.setAttribute("aria-label", data.id);
  if (cited || data.id === "query") node.append(make("p", "head", head), text, ...quoted);
  else {
    const fold = make("details", "", make("summary", "", head), text);
    fold.addEventListener("toggle", () => redraw());
    node.append(fold);
  }
  return node;
}

function stretch(part, origin) {
  if (part.cut) return make("span", "cut", ` … ${part.cut} more characters … `);
  if (!part.marks.length) return document.createTextNode(part.text);
  const node = make("mark", origin);
  for (const number of part.marks) node.append(badge(number, origin));
  node.append(part.text);
  return node;
}

// A span that others cut into several stretches has its number at each of them; the line leads to the first.
function badge(number, origin) {
  const node = make("span", `ref ${origin}`, String(number));
  node.dataset.mark = number;
  return node;
}

function findings(call) {
  const left = call.left_off ? make("p", "note", `${call.left_off} more spans are not shown.`) : "";
  if (!call.findings.length) return make("div", "", make("p", "note", "The guard gave no findings by relation."), left);
  const head = make("thead", "", make("tr", "", ...["Relation", "of", "", "Decided by", "Why", "Evidence"].map((name) => make("th", "", name))));
  const rows = call.findings.map((one) => make("tr", "", make("th", "", one.relation), make("td", "", one.subject), make("td", "", state(one.holds)), make("td", "", one.by), make("td", "", one.reason), make("td", "", refs(one.marks))));
  return make("div", "scroll", make("table", "relations", head, make("tbody", "", ...rows)), left);
}

// ---- lines from what rests on a text to that text

function draw(traced, lines) {
  const ends = new Map();
  for (const node of traced.querySelectorAll("[data-mark]")) {
    if (ends.has(node.dataset.mark)) continue;
    node.id = `mark-${node.dataset.mark}`;
    ends.set(node.dataset.mark, node);
  }
  const frame = traced.getBoundingClientRect();
  const paths = [];
  for (const from of traced.querySelectorAll("[data-marks]")) {
    const box = from.getBoundingClientRect();
    for (const { number, origin } of JSON.parse(from.dataset.marks)) {
      const to = ends.get(String(number));
      if (to) paths.push(path(frame, box, visible(to), number, origin));
    }
  }
  lines.replaceChildren(...paths);
}

// Inside a text that scrolls, the line ends where the text's window does.
function visible(node) {
  const box = node.getBoundingClientRect();
  const window = node.closest("pre")?.getBoundingClientRect();
  const middle = box.top + box.height / 2;
  return { left: box.left, middle: window ? Math.min(Math.max(middle, window.top), window.bottom) : middle };
}

function path(frame, from, to, number, origin) {
  const [x1, y1] = [from.right - frame.left, from.top + from.height / 2 - frame.top];
  const [x2, y2] = [to.left - frame.left - 2, to.middle - frame.top];
  const bend = Math.max(24, (x2 - x1) / 2);
  const node = document.createElementNS(SVG, "path");
  node.setAttribute("class", origin);
  node.setAttribute("data-line", number);
  node.setAttribute("d", `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
  return node;
}

// ---- wiring

filters.addEventListener("input", filter);
filters.addEventListener("submit", (event) => event.preventDefault());
detail.addEventListener("scroll", () => redraw(), true);
list.addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
  if (by === undefined || !shown.length) return;
  event.preventDefault();
  choose(shown[Math.min(Math.max(shown.indexOf(chosen) + by, 0), shown.length - 1)], true);
});
filter();
