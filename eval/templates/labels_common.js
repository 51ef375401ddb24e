"use strict";
// What the pages share on which people label. Everything in `data` was written by models, tools and users: it reaches
// the page as textContent only.
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const KINDS = { call: "Call", refuse: "Refuse", ask: "Ask the user", answer: "Answer", malformed: "Message" };
const UNSAVED = "This browser keeps nothing for this page: download your labels before you close it.";
let annotator = "";
let labels = {}; // by the id of what is labelled
let at = 0;

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const child of children) if (child !== null && child !== "") node.append(child); // strings become text nodes
  return node;
}

function hint(text) {
  find("hint").textContent = text;
  find("hint").hidden = !text;
}

// ---- what is kept between visits

function keepIn(slot) {
  try {
    localStorage.setItem(slot, JSON.stringify({ at, labels }));
  } catch {
    hint(UNSAVED);
  }
}

// items: what is labelled. read: what of a kept label is taken over.
function restoreFrom(slot, items, read) {
  labels = {};
  at = 0;
  let text = null;
  try {
    text = localStorage.getItem(slot);
  } catch {
    return hint(UNSAVED);
  }
  if (text === null) return;
  try {
    const kept = JSON.parse(text);
    for (const { id } of items) if (kept.labels[id]) labels[id] = read(kept.labels[id]);
    at = Math.min(Math.max(Number(kept.at) || 0, 0), items.length - 1);
  } catch {
    hint("What this browser kept of your labels could not be read: please start again.");
  }
}

function saveFile(name, value) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(value, null, 1)], { type: "application/json" }));
  link.download = `${name}-${annotator.replace(/[^\p{L}\p{N}]+/gu, "-")}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// ---- one turn

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

// ---- wiring

// begin: called once the annotator gave a name. Keys count while no field has the focus.
function wire({ begin, note, go, download, key }) {
  find("start").addEventListener("submit", (event) => {
    event.preventDefault();
    annotator = find("annotator").value.trim();
    if (!annotator) return;
    find("start").hidden = true;
    find("work").hidden = find("panel").hidden = false;
    begin();
    document.activeElement.blur();
  });
  find("note").addEventListener("input", note);
  find("note").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "Escape") find("note").blur(); });
  find("back").addEventListener("click", () => go(-1));
  find("forward").addEventListener("click", () => go(1));
  find("download").addEventListener("click", download);
  document.addEventListener("keydown", (event) => {
    if (!annotator || event.target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) go(by);
    else key(event.key);
  });
}
