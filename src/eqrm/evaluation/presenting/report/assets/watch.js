// The page of a watch: risks of certified and new domains, evidence, and a table of domains.
const NEW = DATA.domains, CERTIFIED = DATA.certified;

function spanOf(values, share) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * share;
  return [low - room, high + room];
}

// A few evenly spaced domains with their names: certified ones count up to 0, new ones from 1.
function namedTicks(box, names, first) {
  const most = Math.max(2, Math.floor(box.clientWidth / 130));
  const step = Math.max(1, Math.ceil(names.length / most));
  return names.map((name, i) => [first + i, name]).filter((_, i) => i % step === Math.floor(step / 2));
}

function levelLine(c, height, text) {
  c.plot.append(make("path", { class: "level-line", d: `M${c.left} ${c.y(height)}H${c.right}` }));
  c.svg.append(make("text", { class: "mark-text", x: c.left + 4, y: c.y(height) - 5 }, text));
}

function dots(c, points, kind, width) {
  const d = points.map(([a, b]) => `M${a.toFixed(1)} ${b.toFixed(1)}h.01`).join("");
  c.plot.append(make("path", { class: "dots " + kind, "stroke-width": width, "stroke-linecap": "round", d }));
}

function drawRisks() {
  const box = byId("risks"), before = CERTIFIED.risks;
  const risks = NEW.map((domain) => domain.risk);
  const c = chart(box, {
    xs: [0.5 - before.length, NEW.length + 0.5], ys: spanOf([...before, ...risks, DATA.bound], 0.06),
    xticks: namedTicks(box, [...CERTIFIED.names, ...NEW.map((domain) => domain.name)], 1 - before.length),
    xlabel: "domain", title: "Risk of certified and of new domains in the order of time, with the certified bound",
  });
  const at = (domain, i) => [c.x(i + 1), c.y(domain.risk)];
  dots(c, before.map((risk, i) => [c.x(1 - before.length + i), c.y(risk)]), "s6", 4);
  dots(c, NEW.map(at).filter((_, i) => !NEW[i].missed), "s0", 5);
  dots(c, NEW.map(at).filter((_, i) => NEW[i].missed), "s1", 7);
  levelLine(c, DATA.bound, "bound " + tidy(DATA.boundText));
  c.plot.append(make("path", { class: "level-line", d: `M${c.x(0.5)} ${c.top}V${c.bottom}` }));
  byId("risks-note").textContent = (before.length
    ? `Left of the line: the ${whole(before.length)} domains that the certificate was computed on. Right of it: new domains` : "New domains") +
    "; larger dots above the bound are misses.";
}

function drawEvidence() {
  const box = byId("evidence"), found = NEW.map((domain, i) => [i + 1, domain.evidence]).filter(([, e]) => e !== null);
  const values = found.map(([, e]) => e);
  const high = Math.min(Math.max(2 * DATA.alarmAt, ...values), 1e4 * DATA.alarmAt);
  const c = chart(box, {
    xs: [0.5, Math.max(NEW.length, 1) + 0.5], ys: [Math.max(1e-4, Math.min(0.3, ...values)) / 1.3, 1.3 * high], logY: true,
    xticks: namedTicks(box, NEW.map((domain) => domain.name), 1),
    xlabel: "domain", title: "Evidence against the certificate after each new domain, on a logarithmic scale",
  });
  c.plot.append(make("path", { class: "curve s0", d: path(found.map(([i, e]) => [c.x(i), c.y(Math.min(e, 1.2 * high))])) }));
  levelLine(c, DATA.alarmAt, `alarm at ${digits(DATA.alarmAt)}`);
  levelLine(c, DATA.suspiciousAt, "suspicious");
  byId("evidence-note").textContent = "What one unit of money has become for a gambler who bets against the certificate, domain by domain. " +
    "If the certificate is true, it ever reaches the alarm with the stated probability at most.";
}

function drawDomains() {
  const head = ["domain", "examples", "risk", "evidence", "verdict"].map((text) => make("th", { scope: "col" }, text));
  const rows = NEW.slice(-DATA.listed).reverse().map((domain) => make("tr", {},
    make("th", { scope: "row" }, make("span", { class: "name" }, domain.name)), make("td", {}, whole(domain.examples)),
    make("td", { class: domain.missed ? "best" : null }, digits(domain.risk) + (domain.missed ? " missed" : "")),
    make("td", {}, domain.evidence === null ? "" : digits(domain.evidence, 3)), make("td", {}, domain.verdict)));
  fill(byId("domains"), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
  byId("domains-note").textContent = `${whole(rows.length)} of ${whole(DATA.watched)} domains since the certificate are listed; the state file has all of them.`;
}

function drawTexts() {
  const [verdict, ...lines] = DATA.verdict;
  document.title = verdict;
  byId("sentence").textContent = verdict;
  fill(byId("lines"), ...lines.map((text) => make("p", {}, text)));
  fill(byId("warnings"), ...DATA.warnings.map((text) => make("li", {}, text)));
  fill(byId("claim"), ...DATA.claim.map((text) => make("p", {}, text)));
  byId("earlier-section").hidden = !DATA.earlier.length;
  fill(byId("earlier"), ...DATA.earlier.map((text) => make("li", {}, text)));
}

function drawAll() { drawRisks(); drawEvidence(); }

drawTexts();
drawDomains();
drawAll();
whenResized(drawAll);
