// The distribution of risk: one step curve per model, the chosen one with its band.
function steps(c, xs, heights) {
  const points = [[c.left, c.y(heights[0])]];
  xs.forEach((x, i) => points.push([c.x(x), c.y(heights[i])], [c.x(x), c.y(heights[i + 1])]));
  points.push([c.right, c.y(heights[heights.length - 1])]);
  return points;
}

let curve = null;
function drawCurve() {
  if (!byId("curve-details").open) return;
  const c = chart(byId("cdf"), {
    xs: [DATA.view.low, DATA.view.high], ys: [0, 1], xlabel: `risk of a domain (${DATA.unit})`, ylabel: "share of domains up to a risk",
    title: "Share of domains whose risk is at most a given risk, for each model",
  });
  const shape = DATA.shapes[CHOSEN];
  if (DATA.band) {
    const [down, up] = DATA.band.map((limits) => steps(c, shape.risks, limits));
    c.plot.append(make("path", { class: "band", d: path(up.concat(down.reverse())) + "Z" }));
  }
  const order = MODELS.map((_, i) => i).sort((a, b) => (a === CHOSEN) - (b === CHOSEN));
  for (const i of order) {
    const d = path(steps(c, DATA.shapes[i].risks, [0, ...DATA.shapes[i].cdf]));
    c.plot.append(make("path", { class: "step " + kindOf(i), d }, make("title", {}, MODELS[i])));
  }
  c.marks = make("g", { class: "marks" });
  c.svg.append(c.marks);
  curve = c;
  markCurve();
}

function markCurve() {
  if (!curve) return;
  const alpha = LEVELS.alphas[state.stop], [x, y] = [curve.x(quantile(CHOSEN)), curve.y(alpha)];
  fill(curve.marks,
    make("path", { class: "level-line", d: `M${curve.left} ${y}H${Math.min(x, curve.right)}V${curve.bottom}` }),
    make("circle", { class: "dot chosen", cx: Math.min(x, curve.right), cy: y, r: 5 }));
}

function startCurve() {
  const notes = [`Blue: ${quoted(CHOSEN)}${!DATA.band ? "" : ` with its ${percent(DATA.confidence)} confidence band, which holds the whole curve of new domains`}.`];
  if (MODELS.length > 1) notes.push("Grey: the other models; dashed: references.");
  if (DATA.view.beyond) notes.push(`The axis ends at ${digits(DATA.view.high)}; up to ${whole(DATA.view.beyond)} domains of a model lie beyond that.`);
  byId("cdf-note").textContent = notes.join(" ");
  byId("curve-details").addEventListener("toggle", drawCurve);
}
