// Pairs: which of two pieces of work is better. `labels` holds { verdict: "first" | "second" | "tie" | null, note }.
const { sample, pairs } = data;

// Which of a pair stands on the left: FNV-1a over the annotator and the pair, mixed so that its last bit is fair.
function left(pair) {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(`${annotator}/${pair.id}`)) hash = Math.imul(hash ^ byte, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) & 1) ? "second" : "first";
}

const slot = () => `demur-labels/${sample}/${annotator}`;
const save = () => keepIn(slot());

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
  saveFile("labels", { schema: 1, annotator, labels: rows });
}

document.querySelectorAll("[data-verdict]").forEach((button) => button.addEventListener("click", () => choose(button.dataset.verdict)));
wire({
  begin() {
    restoreFrom(slot(), pairs, ({ verdict, note }) => ({ verdict, note: String(note) }));
    save(); // says at once if nothing can be kept
    show();
  },
  note,
  go,
  download,
  key(key) {
    const verdict = { 1: "left", 2: "right", 0: "tie" }[key];
    if (verdict) choose(verdict);
  },
});
