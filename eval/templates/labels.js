"use strict";
// Everything in `data` was written by models, tools and users: it reaches the page as textContent only.
const { sample, pairs } = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const KINDS = { call: "Call", refuse: "Refuse", ask: "Ask the user", answer: "Answer", malformed: "Message" };
let annotator = "";
let labels = {}; // by pair id: { verdict: "first" | "second" | "tie" | null, note }
let at = 0;

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const child of children) if (child !== null && child !== "") node.append(child); // strings become text nodes
  return node;
}

// Which of a pair stands on the left: FNV-1a over the annotator and the pair, mixed so that its last bit is fair.
function left(pair) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(`${annotator}/${pair.id}`)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) & 1) ? "second" : "first";
}

// ---- what is kept between visits

function hint(text) {
  find("hint").textContent = text;
  find("hint").hidden = !text;
}

const slot = () => `demur-labels/${sample}/${annotator}`;
const UNSAVED = "This browser keeps nothing for this page: download your labels before you close it.";

function save() {
  try {
    localStorage.setItem(slot(), JSON.stringify({ at, labels }));
  } catch {
    hint(UNSAVED);
  }
}

function restore() {
  labels = {};
  at = 0;
  let text = null;
  try {
    text = localStorage.getItem(slot());
  } catch {
    return hint(UNSAVED);
  }
  if (text === null) return;
  try {
    const kept = JSON.parse(text);
    for (const { id } of pairs) if (kept.labels[id]) labels[id] = { verdict: kept.labels[id].verdict, note: String(kept.labels[id].note) };
    at = Math.min(Math.max(Number(kept.at) || 0, 0), pairs.length - 1);
  } catch {
    hint("What this browser kept of your labels could not be read: please start again.");
  }
}

// ---- one pair

function part(kind, title, ...body) {
  return make("div", `part ${kind}`, make("span", "part-name", title), make("div", "body", ...body));
}

function turn(data) {
  return make(
    "li", "turn",
    data.plan && part("plan", "Plan", data.plan),
    data.check !== null ? part("check", "Check", data.check || "(empty)") : null,
    part(`action ${data.kind === "malformed" ? "answer" : data.kind}`, KINDS[data.kind], ...action(data)),
    data.reply !== null ? part("result", data.kind === "ask" ? "Reply" : "Result", data.reply) : null,
  );
}

function action(data) {
  if (data.kind !== "call") return [data.text];
  const rows = data.arguments.flatMap(([name, value]) => [make("dt", "", name), make("dd", "", value)]);
  return [make("code", "tool", data.tool), rows.length ? make("dl", "arguments", ...rows) : ""];
}

function show() {
  const pair = pairs[at];
  const sides = left(pair) === "first" ? pair.sides : [...pair.sides].reverse();
  find("query").textContent = pair.query;
  ["left", "right"].forEach((id, i) => find(id).querySelector("ol").replaceChildren(...sides[i].turns.map(turn)));
  const label = labels[pair.id] || { verdict: null, note: "" };
  const pressed = { tie: "tie", [left(pair)]: "left" }[label.verdict] || (label.verdict ? "right" : null);
  for (const button of document.querySelectorAll("[data-verdict]")) button.setAttribute("aria-pressed", button.dataset.verdict === pressed);
  find("note").value = label.note;
  find("back").disabled = at === 0;
  find("forward").disabled = at === pairs.length - 1;
  const done = pairs.filter(({ id }) => labels[id]?.verdict).length;
  find("bar").value = done;
  find("count").value = `pair ${at + 1} of ${pairs.length}, ${done} labelled`;
  find("download").disabled = done === 0;
}

function go(by) {
  at = Math.min(Math.max(at + by, 0), pairs.length - 1);
  save();
  show();
  window.scrollTo(0, 0);
}

function choose(side) {
  const pair = pairs[at];
  const other = left(pair) === "first" ? "second" : "first";
  const verdict = { left: left(pair), right: other, tie: "tie" }[side];
  labels[pair.id] = { verdict, note: find("note").value };
  go(at < pairs.length - 1 ? 1 : 0);
}

function note() {
  const { id } = pairs[at];
  labels[id] = { verdict: labels[id]?.verdict ?? null, note: find("note").value };
  save();
}

function download() {
  const rows = pairs.filter(({ id }) => labels[id]?.verdict).map((pair) => ({
    pair: pair.id,
    views: pair.sides.map(({ view }) => view),
    left: left(pair),
    verdict: labels[pair.id].verdict,
    note: labels[pair.id].note,
  }));
  const text = JSON.stringify({ schema: 1, annotator, labels: rows }, null, 1);
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = `labels-${annotator.replace(/[^\p{L}\p{N}]+/gu, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- wiring

find("start").addEventListener("submit", (event) => {
  event.preventDefault();
  annotator = find("annotator").value.trim();
  if (!annotator) return;
  find("start").hidden = true;
  find("work").hidden = find("panel").hidden = false;
  restore();
  save(); // says at once if nothing can be kept
  show();
  document.activeElement.blur();
});
document.querySelectorAll("[data-verdict]").forEach((button) => button.addEventListener("click", () => choose(button.dataset.verdict)));
find("note").addEventListener("input", note);
find("note").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") find("note").blur(); });
find("back").addEventListener("click", () => go(-1));
find("forward").addEventListener("click", () => go(1));
find("download").addEventListener("click", download);
document.addEventListener("keydown", (event) => {
  if (!annotator || event.target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const verdict = { 1: "left", 2: "right", 0: "tie" }[event.key];
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (verdict) choose(verdict);
  else if (by) go(by);
});
