// The slider, and for each predictor a card: the quantile here, the certificate for new domains.
function cardOf(i) {
  const found = DATA.levels.predictors[i], s = state.stop;
  const share = percent(DATA.levels.alphas[s]);
  const card = make("article", { class: "card" }, make("h3", {}, named(i)));
  card.append(make("p", { class: "number" }, digits(found.quantile[s]) + " ",
    make("small", {}, `is the ${DATA.levels.labels[s]}-quantile: ${share} of these domains do no worse`)));
  card.append(certificateOf(found, s, share));
  if (found.true) card.append(trueOf(found, s, share));
  const more = [`Smoothed (KDE): ${digits(found.smooth[s])}.`];
  if (found.denoised) more.push(`Without sampling noise: about ${digits(found.denoised[s])}.`);
  if (found.bound[s]) {
    more.push(found.atOnce[s] === null
      ? "If the level is chosen after looking: too few domains to say."
      : `If the level is chosen after looking: at most ${minus(found.atOnce[s])}.`);
  }
  card.append(make("p", { class: "quiet" }, more.join(" ")));
  return card;
}

function minus(text) { return text.replace("-", "−"); }

function sentence(speaksOf, bound, share) {
  return make("p", { class: "statement" },
    `With ${percent(DATA.confidence)} confidence, ${speaksOf} is at most `, make("b", {}, minus(bound[1])),
    ` in at least `, make("b", {}, share), ` of new domains.` + (bound[2] ? " This says nothing: collect more domains or examples." : ""));
}

function certificateOf(found, s, share) {
  if (found.bound[s]) return sentence(DATA.levels.speaksOf.measured, found.bound[s], share);
  const reach = DATA.levels.withinReach;
  return make("p", { class: "refusal" },
    `No certificate: ${whole(DATA.domains)} domains are too few to bound the ${DATA.levels.labels[s]}-quantile of risk with ` +
    `${percent(DATA.confidence)} confidence. At least `, make("b", {}, whole(DATA.levels.needed[s])),
    ` are needed. With ${whole(DATA.domains)}, levels up to ${digits(reach, 3)} are within reach.`);
}

function trueOf(found, s, share) {
  if (found.true[s]) return sentence(DATA.levels.speaksOf.true, found.true[s], share);
  return make("p", { class: "quiet" }, "Too few domains to bound the true risk at this level.");
}

function moveLevel() {
  const label = DATA.levels.labels[state.stop];
  byId("level-value").textContent = label;
  byId("level").setAttribute("aria-valuetext", "α = " + label);
  fill(byId("cards"), ...PREDICTORS.map((_, i) => cardOf(i)));
  markCurves();
  for (const cell of document.querySelectorAll("[data-level]")) cell.classList.toggle("here", cell.dataset.level === label);
}

function startLevel() {
  const slider = byId("level");
  slider.max = DATA.levels.alphas.length - 1;
  slider.value = state.stop;
  slider.addEventListener("input", () => { state.stop = Number(slider.value); moveLevel(); });
  byId("assumption").textContent =
    `Provided that new domains are drawn like these ${whole(DATA.domains)}, independently of each other, and that these played no part in training or ` +
    "in choosing a predictor. The certificate is an order statistic of the measured risks and assumes nothing else. Choose the level before looking: " +
    "then each statement holds with its confidence.";
}
