// The data, elements and numbers. Names reach the page by textContent and nothing else.
const DATA = JSON.parse(document.getElementById("data").textContent);
const MODELS = DATA.models;
const SVG = "http://www.w3.org/2000/svg";
const state = { stop: DATA.levels ? DATA.levels.start : 0, hidden: new Set() };

function byId(id) { return document.getElementById(id); }

function make(tag, attributes, ...children) {
  const svg = ["svg", "path", "g", "line", "text", "rect", "circle", "title", "desc", "clipPath"].includes(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function fill(element, ...children) { element.replaceChildren(...children); return element; }

// A name that may be broken after a hyphen, a dot and the like, not inside a word (as markup.py does).
function labelOf(name) {
  const shown = name.length > 40 ? name.slice(0, 39) + "…" : name;
  const parts = shown.match(/[^_\-/.:=,|]*[_\-/.:=,|]+|[^_\-/.:=,|]+/g) || [];
  const long = parts.some((part) => part.split(/\s/).some((word) => word.length >= 18));
  return make("bdi", { class: long ? "name long" : "name", title: shown === name ? null : name },
    ...parts.flatMap((part, i) => (i ? [make("wbr"), part] : [part])));
}

function nameOf(index) { return labelOf(MODELS[index]); }

// How many decimals a number deserves, by its standard error (as eqrm/evaluation/rounding.py).
function decimals(value, error) {
  const exponentOf = (x) => Math.floor(Math.log10(Math.abs(x)));
  if (!(error > 0)) return value === 0 ? 3 : Math.min(2 - exponentOf(value), 12);
  let exponent = exponentOf(error);
  const leading = Math.round((error / 10 ** exponent) * 100);
  let digits = leading <= 354 ? 2 : 1;
  if (leading >= 950) { exponent += 1; digits = 2; }
  return Math.min(digits - 1 - exponent, 12);
}

function rounded(value, places) {
  if (places < 0) { const unit = 10 ** -places; return String(Math.round(value / unit) * unit); }
  return tidy(value.toFixed(Math.min(places, 12)));
}

function tidy(text) { return text.replace(/^-(?=0\.?0*$)/, "").replace("-", "−"); }

function digits(value, number = 4) {
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-5)) {
    return tidy(value.toExponential(number - 1));
  }
  return tidy(String(Number(value.toPrecision(number))));
}

function whole(number) { return number.toLocaleString("en-US"); }

function percent(share) { return Number((100 * share).toPrecision(10)) + "%"; }
