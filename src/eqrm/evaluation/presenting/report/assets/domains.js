// The domains of one model: the funnel plot, the worst and the best, and all of them to search.
const PAGE = 10, ENDS = 5;
const LIMITS = [1.96, 3.09];
const listed = DATA.rows;
const list = { column: "risk", down: true, most: PAGE, model: CHOSEN, found: [] };
const folded = listed.names.map((name) => name.toLowerCase());
const collator = new Intl.Collator("en", { numeric: true });

// A packed column: the first bytes of big-endian 32-bit floats (eqrm/…/report/content.py).
function unpacked(column) {
  const text = atob(column.text), kept = column.bytes, size = text.length / kept;
  const view = new DataView(new ArrayBuffer(4)), found = new Float64Array(size);
  for (let i = 0; i < size; i += 1) {
    view.setUint32(0, 0);
    for (let b = 0; b < kept; b += 1) view.setUint8(b, text.charCodeAt(i * kept + b));
    found[i] = column.offset + column.unit * view.getFloat32(0);
  }
  return found;
}

const known = { risks: [], errors: [] };
function column(kind, i) {
  if (!listed[kind]) return null;
  if (!known[kind][i]) known[kind][i] = unpacked(listed[kind][i]);
  return known[kind][i];
}
function countsOf(source, i) { return source.counts[source.counts.length > 1 ? i : 0]; }
function compared() { return list.model !== DATA.baseline && listed.risks.length > 1 ? DATA.baseline : null; }

function riskText(i, row) {
  const risk = column("risks", i)[row], errors = column("errors", i);
  const error = errors ? errors[row] : NaN;
  const places = decimals(risk, error);
  return [rounded(risk, places), error >= 0 ? make("small", {}, ` ± ${rounded(error, places)}`) : null];
}

function columns() {
  const risks = column("risks", list.model), counts = countsOf(listed, list.model);
  const found = [
    { key: "name", title: "Domain", less: (a, b) => collator.compare(listed.names[a], listed.names[b]) },
    { key: "risk", title: "Risk", less: (a, b) => risks[a] - risks[b] },
    { key: "count", title: "Examples", less: (a, b) => counts[a] - counts[b] },
  ];
  const other = compared();
  if (other !== null) {
    const theirs = column("risks", other);
    found.push({ key: "other", title: nameOf(other), less: (a, b) => theirs[a] - theirs[b] });
  }
  return found;
}

function arrange() {
  const wanted = byId("search").value.trim().toLowerCase();
  const all = columns(), chosen = all.find((each) => each.key === list.column) || all[1];
  list.found = listed.names.map((_, i) => i).filter((i) => folded[i].includes(wanted));
  list.found.sort((a, b) => (list.down ? chosen.less(b, a) : chosen.less(a, b)) || a - b);
  drawDomains();
}

function heading(each) {
  const active = each.key === list.column;
  const arrow = make("span", { class: "arrow", "aria-hidden": "true" }, active ? (list.down ? "▼" : "▲") : "");
  const button = make("button", { type: "button", "data-key": each.key }, each.title, arrow);
  button.addEventListener("click", () => {
    list.down = active ? !list.down : each.key !== "name";
    list.column = each.key;
    list.most = PAGE;
    arrange();
    byId("domains").querySelector(`[data-key="${each.key}"]`).focus();
  });
  return make("th", { scope: "col", "aria-sort": active ? (list.down ? "descending" : "ascending") : "none" }, button);
}

function rowOf(row, more = true) {
  const other = more ? compared() : null;
  return make("tr", {}, make("th", { scope: "row" }, labelOf(listed.names[row])),
    make("td", {}, ...riskText(list.model, row)), make("td", {}, whole(countsOf(listed, list.model)[row])),
    other === null ? null : make("td", {}, ...riskText(other, row)));
}

function drawDomains() {
  const visible = list.found.slice(0, list.most);
  fill(byId("domains"),
    make("thead", {}, make("tr", {}, ...columns().map(heading))),
    make("tbody", {}, ...visible.map((row) => rowOf(row))));
  const notes = [`${whole(visible.length)} of ${whole(list.found.length)} domains.`];
  if (listed.errors) notes.push("Risk ± sampling error.");
  else notes.push("Sampling errors are left out, to keep the page under 1 MB.");
  if (!listed.all) notes.push(`There are ${whole(DATA.domains)} domains in all; the page lists the worst and the best of each model, to stay under 1 MB.`);
  byId("domains-count").textContent = notes.join(" ");
  byId("more").hidden = visible.length === list.found.length;
}

function drawEnds() {
  const risks = column("risks", list.model);
  const order = Array.from(risks.keys()).sort((a, b) => risks[b] - risks[a] || a - b);
  fill(document.querySelector("#worst tbody"), ...order.slice(0, ENDS).map((row) => rowOf(row, false)));
  fill(document.querySelector("#best tbody"), ...order.slice(-ENDS).reverse().map((row) => rowOf(row, false)));
}

// Risk against size: domains that differ by sampling noise alone lie between the limits.
function drawFunnel() {
  const i = list.model, risks = DATA.sampled ? DATA.sampled.risks[i] : column("risks", i);
  const counts = countsOf(DATA.sampled || listed, i);
  let [low, high] = [counts.reduce((a, b) => Math.min(a, b)), counts.reduce((a, b) => Math.max(a, b))];
  if (low === high) { low *= 0.7; high *= 1.4; }
  const sorted = Float64Array.from(risks).sort(), last = sorted.length - 1;
  const middle = sorted[Math.floor(last / 2)], far = sorted[Math.floor(0.95 * last)];
  const top = far > middle ? Math.min(sorted[last], middle + 12 * (far - middle)) : sorted[last];
  const room = 0.06 * (top - sorted[0]) || 0.5 * Math.abs(top) || 0.5;
  const c = chart(byId("funnel"), {
    xs: [low / 1.1, high * 1.1], ys: [sorted[0] - room, top + room], log: true, height: 320,
    xlabel: "examples in the domain (log scale)", ylabel: `risk (${DATA.unit})`,
    title: `Risk of each domain against its number of examples, for ${MODELS[i]}`,
  });
  const noise = DATA.noise[i], inside = new Set(), outside = new Set();
  let beyond = 0;
  for (let row = 0; row < risks.length; row += 1) {
    const out = noise && Math.abs(risks[row] - noise[0]) > (LIMITS[1] * noise[1]) / Math.sqrt(counts[row]);
    if (out) beyond += 1;
    (out ? outside : inside).add(`M${c.x(counts[row]).toFixed(1)} ${c.y(risks[row]).toFixed(1)}h.01`);
  }
  const width = risks.length > 1000 ? 3 : 5;
  c.plot.append(make("path", { class: "points", "stroke-width": width, d: [...inside].join("") }),
    make("path", { class: "points out", "stroke-width": width, d: [...outside].join("") }));
  byId("funnel-note").textContent = noise ? limitsInWords(c, noise, low, high, beyond, risks.length)
    : "Every domain has one example: there are no control limits.";
}

function limitsInWords(c, [centre, deviation], low, high, beyond, number) {
  const sizes = Array.from({ length: 60 }, (_, k) => (low / 1.1) * ((high / low) * 1.21) ** (k / 59));
  c.plot.append(make("path", { class: "centre", d: `M${c.left} ${c.y(centre)}H${c.right}` }));
  LIMITS.forEach((z, k) => [-z, z].forEach((side) => c.plot.append(make("path", {
    class: "limit" + (k ? "" : " inner"), d: path(sizes.map((n) => [c.x(n), c.y(centre + (side * deviation) / Math.sqrt(n))])),
  }))));
  return "If domains differed by sampling noise alone, 95% would lie between the dotted lines and 99.8% between the solid ones. " +
    `Outside the solid lines (blue): ${whole(beyond)} of ${whole(number)}${DATA.sampled ? " evenly sampled domains" : ""}.`;
}

function startDomains() {
  const select = byId("model"), number = listed.risks.length;
  fill(select, ...MODELS.slice(0, number).map((name, i) => make("option", { value: i, selected: i === CHOSEN }, `${DATA.signs[i]}  ${name.slice(0, 60)}`)));
  select.hidden = number === 1;
  select.addEventListener("change", () => {
    list.model = Number(select.value);
    fill(byId("model-name"), nameOf(list.model));
    drawEnds();
    drawFunnel();
    arrange();
  });
  byId("search").addEventListener("input", () => { list.most = PAGE; arrange(); });
  byId("more").addEventListener("click", () => { list.most += 100; drawDomains(); });
  byId("finder").hidden = false;
  drawFunnel();
  arrange();
}
