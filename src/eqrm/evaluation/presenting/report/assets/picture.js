// The picture of the first screen: mean risk and quantile of risk of every model and reference.
const LEVELS = DATA.levels, CHOSEN = DATA.chosen;
const FIRST_HEIGHT = { narrow: 270, wide: 390 };

function quantile(i) { return LEVELS.quantiles[i][state.stop]; }
function levelName() { return LEVELS.labels[state.stop]; }
function kindOf(i) { return i === CHOSEN ? "chosen" : DATA.references[i] ? "ref" : "model"; }

// The span of an axis: all models, and references unless they lie far beyond them.
function spanOfPoints(values) {
  const own = values.filter((_, i) => !DATA.references[i]);
  const [least, most] = [Math.min(...own), Math.max(...own)];
  const reach = Math.max(6 * (most - least), 0.3 * Math.abs(most));
  const near = values.filter((value) => value >= least - reach && value <= most + reach);
  const [low, high] = [Math.min(...near), Math.max(...near)];
  const room = 0.15 * (high - low) || 0.5 * Math.abs(low) || 0.5;
  return [low - room, high + room];
}

const pen = document.createElement("canvas").getContext("2d");
const FONT = getComputedStyle(document.body).fontFamily;
function widthOf(text, bold) { pen.font = `${bold ? "bold " : ""}12px ${FONT}`; return pen.measureText(text).width + 4; }

const AROUND = [[1, 0], [-1, 0], [0, -1], [0, 1], [0.8, -0.8], [-0.8, -0.8], [0.8, 0.8], [-0.8, 0.8]];
const BEYOND = { "1 0": "→", "-1 0": "←", "0 1": "↑", "0 -1": "↓", "1 1": "↗", "-1 1": "↖", "1 -1": "↘", "-1 -1": "↙" };
const DISTANCES = [9, 20, 34, 50];

// Where a label fits beside a point: [box, text anchor x, baseline y, far], or null.
function roomFor(text, [px, py], c, taken, most, bold) {
  const width = widthOf(text, bold), height = 14;
  for (const distance of DISTANCES.slice(0, most)) {
    for (const [dx, dy] of AROUND) {
      const x = px + dx * distance - (dx > 0.1 ? 0 : dx < -0.1 ? width : width / 2);
      const y = py + dy * distance - height / 2;
      const box = [x, y, x + width, y + height];
      const inside = x >= c.left + 2 && box[2] <= c.right - 1 && y >= c.top && box[3] <= c.bottom - 1;
      if (inside && !taken.some((other) => meets(box, other))) return { box, far: distance > 9 };
    }
  }
  return null;
}

function meets(a, b) { return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]; }

// Of many references, the first two (constants, where there are any), the lowest and the baseline have a label.
function labelled() {
  const all = MODELS.map((_, i) => i), references = all.filter((i) => DATA.references[i]);
  if (references.length <= 6) return all;
  const kept = [...references.slice(0, 2), best(references), DATA.baseline];
  return all.filter((i) => !DATA.references[i] || i === CHOSEN || kept.includes(i));
}

function drawLabels(c, points, arrows) {
  const taken = points.map(([x, y]) => [x - 6, y - 6, x + 6, y + 6]);
  const order = labelled().sort((a, b) =>
    (b === CHOSEN) - (a === CHOSEN) || DATA.references[a] - DATA.references[b] || quantile(a) - quantile(b));
  for (const i of order) {
    const short = MODELS[i].length > 26 ? MODELS[i].slice(0, 25) + "…" : MODELS[i];
    const texts = [`${DATA.signs[i]}  ${short}${arrows[i]}`, DATA.signs[i] + arrows[i]];
    const most = texts.map((_, short) => (short || i === CHOSEN ? DISTANCES.length : 1));
    const found = texts.map((each, t) => roomFor(each, points[i], c, taken, most[t], i === CHOSEN));
    const t = found.findIndex((room) => room !== null);
    if (t < 0) continue;
    const { box, far } = found[t], text = texts[t];
    taken.push(box);
    if (far) {
      const to = [Math.max(box[0], Math.min(points[i][0], box[2])), Math.max(box[1], Math.min(points[i][1], box[3]))];
      c.marks.prepend(make("path", { class: "leader", d: path([points[i], to]) }));
    }
    c.marks.append(make("text", { class: "label " + kindOf(i), x: box[0] + 1, y: box[3] - 3 }, text));
  }
}

function drawPicture() {
  const box = byId("picture");
  const height = box.clientWidth < 480 ? FIRST_HEIGHT.narrow : FIRST_HEIGHT.wide;
  if (MODELS.length === 1) { drawQuantiles(box, height); return; }
  const ys = MODELS.map((_, i) => quantile(i));
  const spans = [spanOfPoints(DATA.means), spanOfPoints(ys)];
  const c = chart(box, {
    xs: spans[0], ys: spans[1], height, xlabel: `mean risk (${DATA.unit})`,
    ylabel: `${levelName()}-quantile of risk (${DATA.unit})`,
    title: `Mean risk and ${levelName()}-quantile of risk of each model and reference. The table below holds the same numbers.`,
  });
  c.marks = make("g", { class: "marks" });
  c.svg.append(make("text", { x: c.right, y: 13, "text-anchor": "end" }, "↙ better"), c.marks);
  const arrows = [];
  const points = MODELS.map((_, i) => {
    const [x, y] = [c.x(DATA.means[i]), c.y(ys[i])];
    const shown = [Math.max(c.left + 5, Math.min(x, c.right - 5)), Math.max(c.top + 5, Math.min(y, c.bottom - 5))];
    const across = Math.sign(x - shown[0]), up = Math.sign(shown[1] - y);
    arrows.push(across || up ? " " + (BEYOND[`${across} ${up}`] || "") : "");
    return shown;
  });
  const order = MODELS.map((_, i) => i).sort((a, b) => (a === CHOSEN) - (b === CHOSEN) || DATA.references[b] - DATA.references[a]);
  for (const i of order) {
    const dot = make("circle", { class: "dot " + kindOf(i), cx: points[i][0], cy: points[i][1], r: i === CHOSEN ? 7 : 4.5 },
      make("title", {}, `${MODELS[i]}: mean ${shownRisk(i, DATA.means[i])}, quantile ${shownRisk(i, ys[i])}`));
    c.marks.append(dot);
  }
  drawLabels(c, points, arrows);
}

// With one model and nothing to compare it with: its quantile at every level.
function drawQuantiles(box, height) {
  const ys = LEVELS.quantiles[0];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const room = 0.08 * (high - low) || 0.5 * Math.abs(low) || 0.5;
  const c = chart(box, {
    xs: [0, 1], ys: [low - room, high + room], height, xlabel: "level",
    ylabel: `quantile of risk (${DATA.unit})`, title: "Quantile of risk at every level",
  });
  const at = [c.x(LEVELS.alphas[state.stop]), c.y(quantile(0))];
  c.plot.append(
    make("path", { class: "line", d: path(ys.map((y, s) => [c.x(LEVELS.alphas[s]), c.y(y)])) }),
    make("path", { class: "level-line", d: `M${c.left} ${at[1]}H${at[0]}V${c.bottom}` }),
  );
  c.svg.append(make("g", { class: "marks" }, make("circle", { class: "dot chosen", cx: at[0], cy: at[1], r: 7 })));
}

// With the decimals that the table gives this model.
function shownRisk(i, value) {
  const places = DATA.decimals[i];
  return Math.abs(value) < 1e-5 || Math.abs(value) >= 1e6 ? digits(value) : rounded(value, places);
}
