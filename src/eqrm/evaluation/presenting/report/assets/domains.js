// The domains: sorted by any column, searched by name, a page at a time.
const PAGE = 15;
const rows = DATA.rows;
const list = { column: "risk0", down: true, most: PAGE, found: [] };
const folded = rows.names.map((name) => name.toLowerCase());
const collator = new Intl.Collator("en", { numeric: true });

function columns() {
  const found = [{ key: "name", title: () => ["Domain"], less: (a, b) => collator.compare(rows.names[a], rows.names[b]) }];
  rows.counts.forEach((counts, i) => found.push({
    key: "count" + i,
    title: () => (rows.counts.length > 1 ? ["Examples, ", named(i, false)] : ["Examples"]),
    less: (a, b) => counts[a] - counts[b],
  }));
  PREDICTORS.forEach((_, i) => found.push({
    key: "risk" + i,
    title: () => (PREDICTORS.length > 1 ? [named(i)] : ["Risk"]),
    less: (a, b) => rows.risks[i][a] - rows.risks[i][b],
  }));
  return found;
}
const COLUMNS = columns();

function arrange() {
  const wanted = byId("search").value.trim().toLowerCase();
  const chosen = COLUMNS.find((column) => column.key === list.column);
  list.found = rows.names.map((_, i) => i).filter((i) => folded[i].includes(wanted));
  list.found.sort((a, b) => (list.down ? chosen.less(b, a) : chosen.less(a, b)) || a - b);
  drawDomains();
}

function heading(column) {
  const active = column.key === list.column;
  const arrow = make("span", { class: "arrow", "aria-hidden": "true" }, active ? (list.down ? "▼" : "▲") : "");
  const button = make("button", { type: "button", "data-key": column.key }, ...column.title(), arrow);
  button.addEventListener("click", () => {
    list.down = active ? !list.down : column.key !== "name";
    list.column = column.key;
    list.most = PAGE;
    arrange();
    byId("domains").querySelector(`[data-key="${column.key}"]`).focus();
  });
  return make("th", { scope: "col", "aria-sort": active ? (list.down ? "descending" : "ascending") : "none" }, button);
}

function riskText(i, row) {
  const risk = rows.risks[i][row], error = rows.errors[i][row];
  const places = decimals(risk, error);
  return [rounded(risk, places), " ", make("small", {}, error === null ? "" : `± ${rounded(error, places)}`)];
}

function rowOf(row) {
  const cells = [make("td", {}, make("span", { class: "name", title: rows.names[row] }, rows.names[row]))];
  rows.counts.forEach((counts) => cells.push(make("td", {}, whole(counts[row]))));
  const risks = PREDICTORS.map((_, i) => rows.risks[i][row]);
  const least = Math.min(...risks);
  PREDICTORS.forEach((_, i) => cells.push(
    make("td", { class: PREDICTORS.length > 1 && risks[i] === least ? "best" : null }, ...riskText(i, row))));
  return make("tr", {}, ...cells);
}

function drawDomains() {
  const visible = list.found.slice(0, list.most);
  fill(byId("domains"),
    make("thead", {}, make("tr", {}, ...COLUMNS.map(heading))),
    make("tbody", {}, ...visible.map(rowOf)));
  const listed = rows.all ? "" : ` (${whole(DATA.domains)} in all; the page lists the worst and best of each predictor to stay under 1 MB)`;
  byId("domains-count").textContent = `${whole(visible.length)} of ${whole(list.found.length)} domains${listed}. Risk ± sampling error.`;
  byId("more").hidden = visible.length === list.found.length;
  const byRisk = list.column.startsWith("risk");
  byId("worst").setAttribute("aria-pressed", String(byRisk && list.down));
  byId("best").setAttribute("aria-pressed", String(byRisk && !list.down));
}

function startDomains() {
  const order = (down) => () => {
    if (!list.column.startsWith("risk")) list.column = "risk0";
    Object.assign(list, { down, most: PAGE });
    arrange();
  };
  byId("worst").addEventListener("click", order(true));
  byId("best").addEventListener("click", order(false));
  byId("search").addEventListener("input", () => { list.most = PAGE; arrange(); });
  byId("more").addEventListener("click", () => { list.most += 100; drawDomains(); });
  arrange();
}
