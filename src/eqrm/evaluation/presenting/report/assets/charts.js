// Scales, axes and marks: the little that a chart needs.
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
const HEIGHT = 300;
const MARGIN = { top: 14, right: 14, bottom: 42, left: 50 };

function colour(index) { return index % 8; }
function dash(index) { return DASHES[(index + Math.floor(index / 8)) % DASHES.length] || null; }

function swatchOf(index) {
  const line = make("path", {
    d: "M1 7H27", class: "curve s" + colour(index), "stroke-dasharray": dash(index),
  });
  return make("svg", { width: 28, height: 14, viewBox: "0 0 28 14", "aria-hidden": "true" }, line);
}

function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
  return found.map((x) => Number(x.toPrecision(12)));
}

function logTicks(low, high) {
  if (high / low < 6) return ticks(low, high, 4);
  const found = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    for (const m of high / low > 300 ? [1] : [1, 2, 5]) {
      const x = m * 10 ** e;
      if (x >= low * 0.999 && x <= high * 1.001) found.push(x);
    }
  }
  return found;
}

function scale(low, high, from, to, log = false) {
  const f = log ? Math.log : (x) => x;
  const a = f(low), b = f(high);
  return (x) => from + ((f(x) - a) / (b - a)) * (to - from);
}

// A new chart in a box: {svg, x, y, plot}, with axes drawn.
function chart(box, options) {
  const width = Math.max(box.clientWidth, 260);
  const height = options.height || HEIGHT;
  const top = options.ylabel ? 32 : MARGIN.top;
  const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const x = scale(...options.xs, MARGIN.left, right, options.log);
  const y = scale(...options.ys, bottom, top, options.logY);
  const clip = "clip-" + box.id;
  const svg = make(
    "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.title },
    make("title", {}, options.title),
    make("clipPath", { id: clip }, make("rect", {
      x: MARGIN.left, y: top - 6, width: right - MARGIN.left, height: bottom - top + 12,
    })),
  );
  const numbered = (list) => list.map((tick) => [tick, digits(tick)]);
  const xs = options.xticks || numbered(options.log ? logTicks(...options.xs) : ticks(...options.xs, width / 90));
  for (const [tick, label] of xs) {
    svg.append(make("path", { class: "grid", d: `M${x(tick)} ${top}V${bottom}` }));
    svg.append(make("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, label));
  }
  for (const [tick, label] of numbered(options.logY ? logTicks(...options.ys) : ticks(...options.ys, 5))) {
    svg.append(make("path", { class: "grid", d: `M${MARGIN.left} ${y(tick)}H${right}` }));
    svg.append(make("text", { x: MARGIN.left - 7, y: y(tick) + 4, "text-anchor": "end" }, label));
  }
  svg.append(make("path", { class: "axis", d: `M${MARGIN.left} ${bottom}H${right}` }));
  svg.append(make("text", { x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle", class: "axis-name" }, options.xlabel));
  if (options.ylabel) svg.append(make("text", { class: "axis-name", x: 2, y: 13 }, "↑ " + options.ylabel));
  const plot = make("g", { "clip-path": `url(#${clip})` });
  svg.append(plot);
  fill(box, svg);
  return { svg, x, y, plot, left: MARGIN.left, right, bottom, top };
}

function path(points) {
  return points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
}

function shown() { return MODELS.map((_, i) => i).filter((i) => !state.hidden.has(i)); }

// Draw again when the width of the window has changed; its height changes while one scrolls.
function whenResized(draw) {
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    draw();
  });
}
