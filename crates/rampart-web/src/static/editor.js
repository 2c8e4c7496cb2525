// Jumps from a mistake to its place in the text. Everything works without it.
(function () {
  "use strict";
  var area = document.getElementById("text");
  if (!area) return;
  document.addEventListener("click", function (event) {
    var link = event.target.closest("a[data-line]");
    if (!link) return;
    event.preventDefault();
    var lines = area.value.split("\n");
    var line = Math.min(Number(link.dataset.line), lines.length) - 1;
    var start = lines.slice(0, line).reduce(function (sum, text) { return sum + text.length + 1; }, 0);
    var column = Array.from(lines[line] || "").slice(0, Number(link.dataset.column) - 1).join("").length;
    area.focus();
    area.setSelectionRange(start + column, start + (lines[line] || "").length);
    var height = parseFloat(getComputedStyle(area).lineHeight);
    area.scrollTop = Math.max(0, (line - 3) * height);
  });
})();
