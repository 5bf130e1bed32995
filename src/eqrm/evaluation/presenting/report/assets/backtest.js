// A backtest: shares by window, risks beside their bounds, tables as text.
const view = { size: 0, model: DATA.first };

function size() { return DATA.sizes[view.size]; }

function button(text, pressed, act, ...before) {
  const made = make("button", { type: "button", "aria-pressed": String(pressed) }, ...before, text);
  made.addEventListener("click", act);
  return made;
}

function drawControls() {
  fill(byId("sizes"), ...DATA.sizes.map((each, i) => button(
    `certified on ${each.certify}`, i === view.size, () => { view.size = i; drawAll(); })));
  byId("sizes").hidden = DATA.sizes.length === 1;
  fill(byId("legend"), ...MODELS.map((name, i) => button(name, !state.hidden.has(i), () => {
    state.hidden[state.hidden.has(i) ? "delete" : "add"](i);
    drawAll();
  }, swatchOf(i))));
  fill(byId("which"), ...MODELS.map((name, i) => button(
    name, i === view.model, () => { view.model = i; drawAll(); }, swatchOf(i))));
}

function drawShares() {
  const { windows, shares } = size();
  const known = shares.flat().filter((share) => share !== null);
  const low = Math.max(0, Math.min(DATA.level, ...known) - 0.05);
  const c = chart(byId("shares"), {
    xs: [0.7, windows.length + 0.3], ys: [low, 1.01], height: 260, xlabel: "window",
    xticks: windows.map((_, i) => [i + 1, String(i + 1)]),
    title: "Share of judged domains within the bound, by window and model",
  });
  c.plot.append(make("path", { class: "level-line", d: `M${c.left} ${c.y(DATA.level)}H${c.right}` }));
  for (const i of shown()) {
    const points = shares[i].map((share, w) => [w, share]).filter(([, share]) => share !== null)
      .map(([w, share]) => [c.x(w + 1), c.y(share)]);
    c.plot.append(make("path", { class: "curve s" + colour(i), "stroke-dasharray": dash(i), d: path(points) }));
    for (const [x, y] of points) c.plot.append(make("circle", { class: "f" + colour(i), cx: x, cy: y, r: 3 }));
  }
}

function drawRisks() {
  const { windows, later } = size();
  byId("risks-section").hidden = later === null;
  if (later === null) return;
  const own = later[view.model].filter((each) => each !== null);
  if (own.length === 0) return;
  const heights = own.flatMap((each) => [...each.risks, ...each.bounds]).filter((x) => x !== null);
  const places = windows.flatMap((each) => each.places);
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const room = (high - low || 1) * 0.06;
  const c = chart(byId("risks"), {
    xs: [Math.min(...places), Math.max(...places) + 1], ys: [low - room, high + room],
    xlabel: `domain, numbered in the order of ${DATA.order}`, title: "Risk and bound of each judged domain",
  });
  later[view.model].forEach((each, w) => {
    if (each === null) return;
    const at = windows[w].places;
    const line = each.bounds.map((bound, i) => (bound === null ? null
      : `M${c.x(at[i]).toFixed(1)} ${c.y(bound).toFixed(1)}H${c.x(at[i] + 1).toFixed(1)}`)).filter(Boolean);
    c.plot.append(make("path", { class: "curve s4", d: line.join("") }));
    each.risks.forEach((risk, i) => {
      const x = c.x(at[i] + 0.5), y = c.y(risk);
      const above = each.bounds[i] !== null && risk > each.bounds[i];
      c.plot.append(above
        ? make("path", { class: "curve s1", d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }, make("title", {}, windows[w].names[i]))
        : make("circle", { class: "f" + colour(view.model), cx: x, cy: y, r: 2 }, make("title", {}, windows[w].names[i])));
    });
  });
  byId("risks-note").textContent = `${MODELS[view.model]}, ${DATA.kind} bound at level ${DATA.level}, ` +
    `certified on ${size().certify} domains; mean ${DATA.loss} per domain.`;
}

function drawTables() {
  fill(byId("tables"), ...size().tables.flatMap(({ title, rows: [header, ...lines] }) => [
    make("h3", {}, title),
    make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, make("table", {},
      make("thead", {}, make("tr", {}, ...header.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...lines.map(([first, ...cells]) => make("tr", {}, make("th", { scope: "row" }, first),
        ...cells.map((text) => make("td", { class: text.endsWith("!") ? "best" : null }, text))))))),
  ]));
}

function drawAll() { drawControls(); drawShares(); drawRisks(); drawTables(); }

byId("sentence").textContent = DATA.sentence;
fill(byId("warnings"), ...DATA.warnings.map((text) => make("li", {}, text)));
fill(byId("conclusions"), ...DATA.conclusions.map((text) => make("li", {}, text)));
drawAll();
whenResized(() => { drawShares(); drawRisks(); });
