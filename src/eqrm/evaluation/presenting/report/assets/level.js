// The slider, and for each predictor a card: the quantile here, the certificate for new domains.
function cardOf(i) {
  const found = DATA.levels.predictors[i], s = state.stop;
  const share = percent(DATA.levels.alphas[s]);
  const card = make("article", { class: "card" }, make("h3", {}, named(i)));
  card.append(make("p", { class: "number" }, digits(found.quantile[s]) + " ",
    make("small", {}, `is the ${DATA.levels.labels[s]}-quantile: ${share} of these domains have at most this risk`)));
  card.append(certificateOf(found, s, share));
  if (found.bound[s] && DATA.doubts[i]) card.append(make("p", { class: "warning" }, `It assumes that ${DATA.levels.assumption}. ${DATA.doubts[i]}`));
  if (found.true) card.append(trueOf(found, s, share));
  const more = [`Smoothed (KDE): ${digits(found.smooth[s])}.`];
  if (found.denoised) more.push(`Without sampling noise: about ${digits(found.denoised[s])}.`);
  if (found.bound[s]) {
    more.push(found.atOnce[s] === null
      ? "If the level is chosen after seeing the risks: too few domains for a bound."
      : `If the level is chosen after seeing the risks: at most ${minus(found.atOnce[s])}.`);
  }
  card.append(make("p", { class: "quiet" }, more.join(" ")));
  return card;
}

function minus(text) { return text.replace("-", "−"); }

// The words of eqrm.evaluation.inference.certificates.statement_about; about whom is in the data.
function statement(risk, bound, share) {
  const which = DATA.levels.about[risk];
  return make("p", { class: "statement" },
    `With ${percent(DATA.confidence)} confidence, at least `, make("b", {}, share), ` of ${which} have a ${risk} risk of at most `,
    make("b", {}, minus(bound[1])), "." + (bound[2] ? " This says nothing: collect more domains, or more examples of each." : ""));
}

function certificateOf(found, s, share) {
  if (found.bound[s]) return statement("measured", found.bound[s], share);
  const reach = DATA.levels.withinReach, [units, unit] = DATA.levels.units;
  return make("p", { class: "refusal" },
    `No certificate: ${whole(units)} ${unit} are too few to bound the ${DATA.levels.labels[s]}-quantile of risk with ` +
    `${percent(DATA.confidence)} confidence. At least `, make("b", {}, whole(DATA.levels.needed[s])),
    ` are needed. ${whole(units)} ${unit} can bound levels up to ${digits(reach, 3)}.`);
}

function trueOf(found, s, share) {
  if (found.true[s]) return statement("true", found.true[s], share);
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
    `Assumption: ${DATA.levels.assumption}; these were not used for training or for choosing a predictor. ` +
    (DATA.nested
      ? "The certificate averages over all draws of one member per group, or uses one draw where there are few groups, and assumes nothing else."
      : "The certificate is an order statistic of the measured risks and assumes nothing else.") +
    " Its confidence holds for a level that was chosen before seeing the risks.";
}
