// The slider: it moves the picture, the table's own column, the certificates and the curve.
function quoted(i) { return `'${MODELS[i]}'`; }
function minus(text) { return text.replace("-", "−"); }

function best(indices) { return indices.reduce((a, b) => (quantile(b) < quantile(a) ? b : a)); }

function hereInWords() {
  const share = percent(LEVELS.alphas[state.stop]);
  const all = MODELS.map((_, i) => i);
  const models = all.filter((i) => !DATA.references[i]), references = all.filter((i) => DATA.references[i]);
  const who = DATA.smooth ? `${share} of domains are estimated to have` : `${share} of these domains have`;
  const told = [`Level ${levelName()}: ${who} a risk of at most ${shownRisk(CHOSEN, quantile(CHOSEN))} with ${quoted(CHOSEN)}`];
  const lowest = best(DATA.references[CHOSEN] ? all : models);
  if (quantile(lowest) < quantile(CHOSEN)) told.push(`lowest of the models: ${shownRisk(lowest, quantile(lowest))}, ${quoted(lowest)}`);
  const others = references.filter((i) => i !== CHOSEN);
  if (others.length) {
    const reference = best(others);
    told.push(`best ${DATA.references[CHOSEN] ? "other " : ""}reference: ${shownRisk(reference, quantile(reference))}, ${quoted(reference)}`);
  }
  const verdict = DATA.verdicts[levelName()];
  return (verdict && state.stop !== LEVELS.start ? verdict + " " : "") + told.join("; ") + ".";
}

// The words of eqrm.evaluation.inference.certificates.statement_about; about whom is in the data.
function statement(risk, bound, share) {
  return `With ${percent(DATA.confidence)} confidence, at least ${share} of ${LEVELS.about[risk]} have a ${risk} risk of at most ` +
    `${minus(bound[0])}.` + (bound[1] ? " This says nothing: collect more domains, or more examples of each." : "");
}

function refusal() {
  const [units, unit] = LEVELS.units;
  return `${whole(units)} ${unit} are too few to bound the ${levelName()}-quantile of risk with ${percent(DATA.confidence)} confidence: ` +
    `at least ${whole(LEVELS.needed[state.stop])} are needed. ${whole(units)} ${unit} can bound levels up to ${digits(LEVELS.withinReach, 3)}.`;
}

function moreInWords(share) {
  const s = state.stop, found = LEVELS.chosen, told = [];
  if (LEVELS.compared && LEVELS.bounds[CHOSEN][s]) {
    told.push(found.picked[s]
      ? `For a model picked among these ${LEVELS.compared} by its risks on these domains: at most ${minus(found.picked[s][0])}.`
      : `For a model picked among these ${LEVELS.compared} by its risks on these domains there are too few domains.`);
  }
  if (found.true) told.push(found.true[s] ? statement("true", found.true[s], share) : "Too few domains to bound the true risk at this level.");
  if (LEVELS.bounds[CHOSEN][s]) {
    told.push(found.atOnce[s] === null
      ? "For a level chosen after seeing the risks there are too few domains."
      : `For a level chosen after seeing the risks: at most ${minus(found.atOnce[s])}.`);
  }
  if (found.denoised) told.push(`The quantile without sampling noise: about ${shownRisk(CHOSEN, found.denoised[s])}.`);
  return told.join(" ");
}

function moveLevel() {
  const label = levelName(), share = percent(LEVELS.alphas[state.stop]);
  byId("level-value").textContent = label;
  byId("level").setAttribute("aria-valuetext", "level " + label);
  for (const place of document.querySelectorAll(".level-here")) place.textContent = label;
  byId("here").textContent = hereInWords();
  const bound = LEVELS.bounds[CHOSEN][state.stop];
  byId("stated").textContent = bound ? statement("measured", bound, share) : refusal();
  byId("statement-more").textContent = moreInWords(share);
  for (const cell of document.querySelectorAll("[data-model]")) {
    const other = LEVELS.bounds[Number(cell.dataset.model)][state.stop];
    cell.textContent = other ? minus(other[0]) : "too few domains";
  }
  moveColumn(label);
  drawPicture();
  markCurve();
}

function moveColumn(label) {
  document.querySelectorAll("#levels td[data-now]").forEach((cell, i) => {
    const fixed = [...cell.parentElement.children].find((other) => other.dataset.level === label);
    cell.textContent = fixed ? fixed.firstChild.textContent : shownRisk(i, quantile(i));
    const lowest = MODELS.every((_, j) => quantile(i) <= quantile(j));
    cell.classList.toggle("lowest", lowest && MODELS.length > 1);
    cell.classList.toggle("own", DATA.trained[i] === label);
  });
  const columns = [...document.querySelectorAll("#levels thead [data-level]")];
  const column = columns.find((cell) => cell.dataset.level === label);
  const twice = Boolean(column) && getComputedStyle(column).display !== "none";  // narrow screens drop some
  for (const cell of document.querySelectorAll("#levels [data-now]")) cell.classList.toggle("twice", twice);
  for (const cell of document.querySelectorAll("#levels [data-level]")) cell.classList.toggle("here", cell.dataset.level === label);
}

// Of many references only the first ones and the lowest stay; a button shows all.
const FEW = 5;
function foldReferences() {
  const rows = [...document.querySelectorAll("#levels .refs tr")], start = MODELS.length - rows.length;
  if (rows.length <= FEW) return;
  const lowest = best(MODELS.map((_, i) => i).slice(start)) - start;
  const folded = rows.filter((row, i) => i >= FEW - 1 && i !== lowest && !row.classList.contains("chosen"));
  const button = make("button", { type: "button", class: "unfold" }, `Show ${folded.length} more references`);
  button.addEventListener("click", () => { folded.forEach((row) => row.classList.remove("folded")); button.remove(); });
  folded.forEach((row) => row.classList.add("folded"));
  byId("levels").after(button);
}

function startLevel() {
  const slider = byId("level");
  slider.max = LEVELS.alphas.length - 1;
  slider.value = state.stop;
  slider.addEventListener("input", () => { state.stop = Number(slider.value); moveLevel(); });
  document.querySelector(".level").hidden = false;
}
