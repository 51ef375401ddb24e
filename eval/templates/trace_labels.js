// Traces: is a call wrong, and which first. `labels` holds { verdict: "aligned" | "misaligned" | "dropped" | null, step, note }.
const { sample, kind, traces } = data;

const slot = () => `demur-${kind}/${sample}/${annotator}`;
const save = () => keepIn(slot());
const label = () => labels[traces[at].id] || { verdict: null, step: null, note: "" };

function step(turnData, i) {
  const node = turn(turnData);
  node.dataset.wrong = label().step === i;
  return node;
}

function wrongButton(i) {
  const button = make("button", "", i < 9 ? make("kbd", "", String(i + 1)) : "", ` Step ${i + 1}`);
  button.type = "button";
  button.dataset.step = i;
  button.setAttribute("aria-pressed", label().step === i);
  button.addEventListener("click", () => choose("misaligned", i));
  return button;
}

function tool({ name, description, parameters }) {
  return make("div", "", make("code", "tool", name), make("div", "", description), make("pre", "", JSON.stringify(parameters, null, 1)));
}

function answer({ annotator: name, verdict, step: wrong, note }) {
  const said = verdict === "misaligned" ? `step ${wrong + 1} is the first wrong one` : "no call is wrong";
  return make("li", "", make("strong", "", name), `: ${said}`, note && ` (${note})`);
}

function show() {
  const trace = traces[at];
  find("query").textContent = trace.query;
  find("tools").replaceChildren(...trace.tools.map(tool));
  find("answers").hidden = trace.answers.length === 0;
  find("answers").querySelector("ul").replaceChildren(...trace.answers.map(answer));
  find("turns").replaceChildren(...trace.turns.map(step));
  find("wrong-steps").replaceChildren(...trace.calls.map(wrongButton));
  for (const button of document.querySelectorAll("[data-verdict]")) button.setAttribute("aria-pressed", button.dataset.verdict === label().verdict);
  find("note").value = label().note;
  find("back").disabled = at === 0;
  find("forward").disabled = at === traces.length - 1;
  const done = traces.filter(({ id }) => labels[id]?.verdict).length;
  find("bar").value = done;
  find("count").value = `trace ${at + 1} of ${traces.length}, ${done} labelled`;
  find("download").disabled = done === 0;
}

function go(by) {
  at = Math.min(Math.max(at + by, 0), traces.length - 1);
  save();
  show();
  window.scrollTo(0, 0);
}

function choose(verdict, wrong = null) {
  labels[traces[at].id] = { verdict, step: wrong, note: find("note").value };
  go(1);
}

function note() {
  labels[traces[at].id] = { ...label(), note: find("note").value };
  save();
}

function download() {
  const rows = traces.filter(({ id }) => labels[id]?.verdict).map(({ id, view }) => ({
    trace: id,
    view,
    verdict: labels[id].verdict,
    first_wrong_step: labels[id].step,
    note: labels[id].note,
  }));
  saveFile(kind, { schema: 1, kind, annotator, labels: rows });
}

document.querySelectorAll("[data-verdict]").forEach((button) => button.addEventListener("click", () => choose(button.dataset.verdict)));
wire({
  begin() {
    restoreFrom(slot(), traces, ({ verdict, step: wrong, note: text }) => ({ verdict, step: wrong, note: String(text) }));
    save(); // says at once if nothing can be kept
    show();
  },
  note,
  go,
  download,
  key(key) {
    if (key === "t") document.querySelector("details.tools").toggleAttribute("open");
    else document.querySelector({ 0: "[data-verdict=aligned]", x: "[data-verdict=dropped]" }[key] || `[data-step="${Number(key) - 1}"]`)?.click();
  },
});
