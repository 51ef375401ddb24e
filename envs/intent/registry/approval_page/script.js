// Keeps the page up to date without a reload, so that what is being typed stays. Without it the forms work as well.
"use strict";

const EVERY_MS = 2000;
const pending = document.getElementById("pending");
const message = document.getElementById("message");
let polling = false;
let trouble = false; // the message is about the connection, and goes when that is back

function say(text, aboutConnection = false) {
  trouble = aboutConnection && text !== "";
  if (message.textContent !== text) message.textContent = text;
  message.hidden = text === "";
}

// The server's page as a document: nothing in it runs, and all text in it was escaped by the template.
async function read(response) {
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function sentenceOf(page) {
  return page.getElementById("message")?.textContent ?? "";
}

function merge(page) {
  if (page.getElementById("pending")?.dataset.reachable !== "true") return false;
  const fresh = new Map([...page.querySelectorAll("#pending > article")].map((card) => [card.dataset.id, card]));
  const outcomes = new Map([...page.querySelectorAll("#history > li")].map((item) => [item.dataset.id, item]));
  for (const card of pending.querySelectorAll(":scope > article:not(.over)")) {
    const now = fresh.get(card.dataset.id);
    if (now) card.querySelector(".times").replaceWith(document.adoptNode(now.querySelector(".times")));
    else finish(card, outcomes.get(card.dataset.id));
    fresh.delete(card.dataset.id);
  }
  for (const card of fresh.values()) pending.append(document.adoptNode(card));
  mergeHistory(page.querySelectorAll("#history > li"));
  document.title = page.title;
  document.getElementById("none").hidden = pending.querySelector("article:not(.over)") !== null;
  document.getElementById("clear").hidden = pending.querySelector("article.over") === null;
  return true;
}

// Entries that have not changed stay, with their arguments unfolded or not.
function mergeHistory(items) {
  const list = document.getElementById("history");
  const known = new Map([...list.children].map((item) => [item.dataset.id + item.className, item]));
  list.replaceChildren(
    ...[...items].map((item) => known.get(item.dataset.id + item.className) ?? document.adoptNode(item)),
  );
}

// The card keeps its place, so that no button moves under the pointer, and what was typed can still be read.
function finish(card, outcome) {
  card.classList.add("over");
  card.querySelector(".times").textContent = outcome?.querySelector(".outcome").textContent ?? "no longer waiting";
  for (const control of card.querySelectorAll("button")) control.disabled = true;
  card.querySelector("textarea").readOnly = true;
}

async function poll() {
  if (polling || document.hidden) return;
  polling = true;
  try {
    const page = await read(await fetch("/"));
    if (!merge(page)) say(sentenceOf(page), true);
    else if (trouble) say("");
  } catch {
    say("The server does not answer. What you type stays here; the page tries again.", true);
  } finally {
    polling = false;
  }
}

async function decide(form, button) {
  const body = new URLSearchParams(new FormData(form));
  body.set(button.name, button.value);
  const buttons = form.querySelectorAll("button");
  for (const one of buttons) one.disabled = true;
  let page = null;
  try {
    const response = await fetch(form.action, { method: "POST", body });
    page = await read(response);
    say(response.ok ? "" : sentenceOf(page));
  } catch {
    say("The server does not answer. Your answer is still in the form; send it again.");
  }
  for (const one of buttons) one.disabled = false;
  if (page) merge(page);
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.decide") || !event.submitter) return;
  event.preventDefault();
  decide(event.target, event.submitter);
});

document.getElementById("clear").addEventListener("click", (event) => {
  for (const card of pending.querySelectorAll("article.over")) card.remove();
  event.target.hidden = true;
});

document.addEventListener("visibilitychange", poll);
setInterval(poll, EVERY_MS);
