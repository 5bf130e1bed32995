// Tables, risk against size, noise, warnings, and the start of it all.
function tableHead(first) {
  return make("thead", {}, make("tr", {}, make("th", { scope: "col" }, first),
    ...PREDICTORS.map((_, i) => make("th", { scope: "col" }, named(i)))));
}

const ENDS = { 0: "best domain", 1: "worst domain", 0.5: "median" };

function statisticLabel(statistic) {
  if (statistic.level === null) return ["mean"];
  if (statistic.kind !== "quantile") return ["mean beyond " + statistic.level];
  const end = ENDS[statistic.level];
  return [statistic.level + "-quantile", end ? make("small", {}, " " + end) : null];
}

function drawTable() {
  const body = DATA.table.statistics.map((statistic, s) => {
    const level = statistic.kind === "quantile" ? statistic.level : null;
    return make("tr", {}, make("th", { scope: "row", "data-level": level }, ...statisticLabel(statistic)),
      ...DATA.table.cells.map((cells) => make("td", { class: cells[s][2] ? "best" : null, "data-level": level },
        minus(cells[s][0]), " ", make("small", {}, minus(cells[s][1])))));
  });
  fill(byId("table"), tableHead("Risk"), make("tbody", {}, ...body));
  byId("table-note").textContent =
    `In brackets: ${percent(DATA.confidence)} confidence intervals, if domains are independent; ` +
    "? where there are too few domains for a limit. Numbers are rounded to their uncertainty." + (DATA.references && DATA.references.lines.length
      ? " Bold: the lowest of the row, references included." : PREDICTORS.length > 1 ? " Bold: the lowest of the row." : "");
}

function drawReferences() {
  const found = DATA.references;
  if (!found) return;
  byId("references-section").hidden = false;
  fill(byId("verdicts"), ...found.verdicts.map((text) => make("li", {}, text)));
  const [header, ...lines] = found.lines.length ? found.lines : [[]];
  const cell = (text) => make("td", { class: text.endsWith("*") ? "best" : null }, minus(text.replace("*", "").trim()));
  fill(byId("references"),
    make("thead", {}, make("tr", {}, ...header.map((text) => make("th", { scope: "col" }, text.trim())))),
    make("tbody", {}, ...lines.map(([name, ...texts], i) => make("tr", {},
      make("th", { scope: "row" }, name, i < found.predictors ? null : make("small", {}, " reference")), ...texts.map(cell)))));
  byId("references-note").textContent = [...(lines.length ? [
    "References are cross-fitted: the risk of a domain comes from a constant, or a correction of the scores, computed on other domains. Bold: the lowest of the column.",
  ] : []), ...found.notes].join(" ");
}

function drawDifferences() {
  if (!DATA.differences.length) return;
  byId("differences-section").hidden = false;
  const body = DATA.differences[0].rows.map((one, s) => make("tr", {}, make("th", { scope: "row" }, ...statisticLabel(one)),
    ...DATA.differences.map(({ rows: list }) => {
      const d = list[s];
      return make("td", { class: d.clear ? "best" : null }, d.texts[0] + (d.clear ? (d.lower ? " lower" : " higher") : "") + " ",
        make("small", {}, `[${d.texts[1]}, ${d.texts[2]}]`));
    })));
  const heads = DATA.differences.map(({ predictor }) => make("th", { scope: "col" }, named(predictor)));
  fill(byId("differences"), make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Risk minus that of ", make("span", { class: "inline" }, named(DATA.baseline))), ...heads)),
    make("tbody", {}, ...body));
  byId("differences-note").textContent =
    `Paired by domain; in brackets: ${percent(DATA.confidence)} confidence intervals. Bold where the interval excludes 0. ${DATA.refusals.join(" ")}`;
}

function drawSizes() {
  const source = DATA.sampled || rows;
  const counts = source.counts, all = counts.flat();
  let [low, high] = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  if (low === high) { low *= 0.7; high *= 1.4; }
  const c = chart(byId("size"), {
    xs: [low / 1.08, high * 1.08], ys: [DATA.view.low, DATA.view.high], log: true,
    xlabel: "examples in the domain (log scale)", title: "Risk of each domain against its number of examples",
  });
  for (const i of shown()) {
    const sizes = counts[counts.length > 1 ? i : 0];
    const seen = new Set();
    source.risks[i].forEach((risk, j) => seen.add(dot(i, Math.round(2 * c.x(sizes[j])) / 2, Math.round(2 * c.y(risk)) / 2)));
    c.plot.append(make("path", {
      class: "dots s" + colour(i), "stroke-width": i % 3 < 2 ? (all.length > 3000 ? 3 : 5) : 1.3,
      "stroke-linecap": i % 3 === 0 ? "round" : "butt", d: [...seen].join(""),
    }));
    drawFunnel(c, i, low, high);
  }
}

// Predictors differ by shape too: discs, squares, crosses.
function dot(i, x, y) {
  if (i % 3 === 0) return `M${x} ${y}h.01`;
  if (i % 3 === 1) return `M${x - 2} ${y}h4`;
  return `M${x - 2.5} ${y - 2.5}l5 5m0 -5l-5 5`;
}

function drawFunnel(c, i, low, high) {
  const noise = DATA.noise[i];
  if (noise.refusal) return;
  const sizes = Array.from({ length: 60 }, (_, k) => (low / 1.08) * ((high / low) * 1.1664) ** (k / 59));
  for (const side of [-1.96, 1.96]) {
    const d = path(sizes.map((n) => [c.x(n), c.y(noise.mean + (side * noise.deviation) / Math.sqrt(n))]));
    c.plot.append(make("path", { class: "funnel s" + colour(i), "stroke-dasharray": dash(i), d }));
  }
}

function drawNoise() {
  fill(byId("noise"), ...PREDICTORS.map((_, i) => {
    const noise = DATA.noise[i];
    const card = make("article", { class: "card" }, make("h3", {}, named(i)));
    if (noise.refusal) { card.append(make("p", { class: "refusal" }, noise.refusal)); return card; }
    const width = Math.round(1000 * noise.share) / 10;
    const label = `${Math.round(100 * noise.share)}% sampling noise, ${100 - Math.round(100 * noise.share)}% real differences`;
    const bar = make("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label },
      make("rect", { class: "noise", x: 0, y: 0, width, height: 10 }), make("rect", { class: "spread", x: width, y: 0, width: 100 - width, height: 10 }));
    card.append(make("div", { class: "bar" }, bar), make("div", { class: "split" },
      make("span", {}, `sampling noise ${Math.round(100 * noise.share)}%`), make("span", {}, `real differences ${100 - Math.round(100 * noise.share)}%`)));
    card.append(make("p", {}, noise.sentence));
    card.append(make("p", { class: "quiet" }, `Beyond the ${noise.alpha}-quantile, ${Math.round(100 * noise.tail)}% of the distance to the mean is expected to disappear if these domains are measured again.`));
    if (noise.warning) card.append(make("p", { class: "warning" }, noise.warning));
    return card;
  }));
}

function drawExchangeability() {
  fill(byId("exchangeable"), ...PREDICTORS.map((_, i) => {
    const tests = DATA.exchangeability[i].length ? DATA.exchangeability[i] : [{ sentence: "Not tested: there are fewer than five domains." }];
    return make("div", {}, PREDICTORS.length > 1 ? make("h3", {}, named(i)) : null,
      make("ul", {}, ...tests.map((test) => make("li", {}, test.warning ? make("span", { class: "warning" }, test.sentence) : test.sentence)),
        ...DATA.in_time[i].map((sentence) => make("li", {}, sentence))));
  }));
}

function drawNested() {
  if (!DATA.nested) return;
  byId("nested-section").hidden = false;
  fill(byId("nested"), ...DATA.nested.map((sentences, i) => make("div", {}, PREDICTORS.length > 1 ? make("h3", {}, named(i)) : null,
    make("ul", {}, ...sentences.map((text) => make("li", {}, text))))));
}

function drawWarnings() {
  const found = new Map();
  const warn = (text, i) => found.set(text, [...(found.get(text) || []), i]);
  PREDICTORS.forEach((_, i) => {
    if (DATA.noise[i].warning) warn(DATA.noise[i].warning, i);
    DATA.exchangeability[i].filter((test) => test.warning).forEach((test) => warn(test.sentence, i));
  });
  const start = DATA.levels.start, needed = DATA.levels.needed[start];
  const items = [...found].map(([text, who]) => make("li", {}, ...(PREDICTORS.length > 1
    ? [make("b", { class: "name" }, who.map((i) => PREDICTORS[i]).join(", ") + ": "), text] : [text])));
  if (needed !== null) {
    items.unshift(make("li", {}, `There are too few ${DATA.levels.units[1]} for a certificate at level ${DATA.levels.labels[start]}: ${whole(DATA.levels.units[0])} of at least ${whole(needed)}.`));
  }
  fill(byId("warnings"), ...items);
}

function drawTexts() {
  byId("sentence").textContent = DATA.sentence;
  document.title = DATA.sentence;
  const [least, median, most] = DATA.sizes.map(whole);
  byId("sizes").textContent = least === most
    ? `${most} examples per domain. The risk of a domain is its mean ${DATA.loss}; lower is better.`
    : `${least} to ${most} examples per domain (median ${median}). The risk of a domain is its mean ${DATA.loss}; lower is better.`;
  byId("size-note").textContent = "If domains differed by sampling noise only, 95% of them would lie between the two lines of a predictor." +
    (DATA.sampled ? ` A sample of ${whole(DATA.sampled.risks[0].length)} evenly spaced domains is shown.` : "");
  byId("command").textContent = DATA.command || "eqrm.evaluate(…) and write_report(…), called from Python";
  byId("versions").textContent = Object.entries(DATA.versions).map(([name, version]) => `${name} ${version}`).join(" · ");
}

drawTexts();
drawWarnings();
drawTable();
drawReferences();
drawDifferences();
drawLegend();
drawCurves();
startLevel();
moveLevel();
startDomains();
drawSizes();
drawNoise();
drawNested();
drawExchangeability();
whenResized(() => { drawCurves(); drawSizes(); });
