// The CDF with its band and the density, and the marks that the level moves along them.
const RISK_AXIS = "risk of a domain (" + DATA.loss + ")";

// Corners of a step function that takes heights[i+1] from xs[i] on, and heights[0] before.
function steps(c, xs, heights) {
  const points = [[c.left, c.y(heights[0])]];
  xs.forEach((x, i) => points.push([c.x(x), c.y(heights[i])], [c.x(x), c.y(heights[i + 1])]));
  points.push([c.right, c.y(heights[heights.length - 1])]);
  return points;
}

function drawCdf() {
  const view = [DATA.view.low, DATA.view.high];
  const c = chart(byId("cdf"), {
    xs: view, ys: [0, 1], xlabel: RISK_AXIS,
    title: "Share of domains whose risk is at most a given risk, for each predictor",
  });
  for (const i of shown()) {
    const shape = DATA.shapes[i];
    if (state.band) {
      const up = steps(c, shape.risks, shape.upper), down = steps(c, shape.risks, shape.lower);
      c.plot.append(make("path", { class: "area f" + colour(i), d: path(up.concat(down.reverse())) + "Z" }));
    }
  }
  for (const i of shown()) {
    const shape = DATA.shapes[i];
    const d = path(steps(c, shape.risks, [0, ...shape.cdf]));
    c.plot.append(make("path", { class: "curve s" + colour(i), "stroke-dasharray": dash(i), d }));
  }
  c.marks = make("g", { class: "marks" });
  c.plot.append(c.marks);
  return c;
}

function heightsOf(density) {
  const step = (density.to - density.from) / (density.pdf.length - 1);
  return density.pdf.map((height, i) => [density.from + i * step, height]);
}

function drawPdf() {
  const box = byId("pdf");
  const densities = shown().map((i) => DATA.shapes[i].density).filter((d) => d !== null);
  if (densities.length === 0) {
    fill(box, make("p", { class: "quiet" }, "All risks are equal: there is no density to draw."));
    return null;
  }
  const top = Math.max(...densities.flatMap((d) => d.pdf));
  const c = chart(box, {
    xs: [DATA.view.low, DATA.view.high], ys: [0, top * 1.05], xlabel: RISK_AXIS,
    title: "Density of the risk of a new domain, for each predictor",
  });
  c.marks = make("g", { class: "marks" });
  c.plot.append(c.marks);
  for (const i of shown()) {
    const density = DATA.shapes[i].density;
    if (density === null) continue;
    const d = path(heightsOf(density).map(([x, h]) => [c.x(x), c.y(h)]));
    c.plot.append(make("path", { class: "curve s" + colour(i), "stroke-dasharray": dash(i), d }));
  }
  return c;
}

function markCdf(c) {
  const alpha = DATA.levels.alphas[state.stop];
  fill(c.marks, make("path", { class: "level-line", d: `M${c.left} ${c.y(alpha)}H${c.right}` }));
  for (const i of shown()) {
    const x = c.x(DATA.levels.predictors[i].quantile[state.stop]);
    c.marks.append(
      make("path", { class: "marker s" + colour(i), "stroke-dasharray": dash(i), d: `M${x} ${c.y(alpha)}V${c.bottom}` }),
      make("circle", { class: "f" + colour(i), cx: x, cy: c.y(alpha), r: 4.5 }),
    );
  }
  c.marks.append(make("text", { class: "mark-text", x: c.left + 5, y: c.y(alpha) + (alpha > 0.93 ? 15 : -5) }, "α = " + DATA.levels.labels[state.stop]));
}

function markPdf(c) {
  fill(c.marks);
  for (const i of shown()) {
    const density = DATA.shapes[i].density;
    if (density === null) continue;
    const q = DATA.levels.predictors[i].smooth[state.stop];
    const all = heightsOf(density);
    const tail = all.filter(([x]) => x >= q);
    if (tail.length) {
      const points = [[q, heightAt(all, q)], ...tail].map(([x, h]) => [c.x(x), c.y(h)]);
      const last = points[points.length - 1][0];
      c.marks.append(make("path", { class: "tail f" + colour(i), d: path([[c.x(q), c.y(0)], ...points, [last, c.y(0)]]) + "Z" }));
    }
    c.marks.append(make("path", { class: "marker s" + colour(i), "stroke-dasharray": dash(i), d: `M${c.x(q)} ${c.top}V${c.bottom}` }));
  }
}

function heightAt(points, x) {
  const after = points.findIndex(([a]) => a >= x);
  if (after <= 0) return points[0][1];
  const [[a, u], [b, v]] = [points[after - 1], points[after]];
  return u + ((v - u) * (x - a)) / (b - a);
}

let charts = {};
function drawCurves() {
  charts = { cdf: drawCdf(), pdf: drawPdf() };
  markCurves();
}
function markCurves() {
  markCdf(charts.cdf);
  if (charts.pdf) markPdf(charts.pdf);
}

function drawLegend() {
  fill(byId("legend"), ...PREDICTORS.map((_, i) => {
    const button = make("button", { type: "button", "aria-pressed": "true" }, swatchOf(i), named(i, false));
    button.addEventListener("click", () => {
      if (state.hidden.has(i)) state.hidden.delete(i); else state.hidden.add(i);
      if (state.hidden.size === PREDICTORS.length) state.hidden.clear();
      [...byId("legend").children].forEach((other, j) => other.setAttribute("aria-pressed", String(!state.hidden.has(j))));
      drawCurves();
      drawSizes();
    });
    return button;
  }));
  const band = byId("band");
  band.checked = state.band;
  band.closest("label").hidden = Boolean(DATA.nested);
  band.addEventListener("change", () => { state.band = band.checked; drawCurves(); });
  const exact = DATA.shapes[0].method === "exact";
  const notes = DATA.nested ? [] : [
    `With ${percent(DATA.confidence)} confidence, the whole true curve of new domains lies within the band ` +
    `(${exact ? "exact for the number of domains" : "Dvoretzky-Kiefer-Wolfowitz"}).`,
  ];
  if (PREDICTORS.length > 1) notes.push("At each height α, the leftmost curve belongs to the best predictor for that level.");
  if (DATA.view.beyond) notes.push(`The axes end at ${digits(DATA.view.high)}; up to ${whole(DATA.view.beyond)} domains of a predictor lie beyond that.`);
  byId("curves-note").textContent = notes.join(" ");
}
