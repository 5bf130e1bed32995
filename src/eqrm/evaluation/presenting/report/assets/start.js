// Start everything; draw again when the width changes; open all details for printing.
function drawAll() { drawPicture(); drawFunnel(); drawCurve(); }

function forPrinting() {
  const closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((each) => { each.open = true; });
  drawCurve();
  window.addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }), { once: true });
}

startLevel();
startCurve();
moveLevel();
foldReferences();
startDomains();
whenResized(drawAll);
window.addEventListener("beforeprint", forPrinting);
