// Niceties only: the page is complete without this. Tables whose columns hold numbers can be sorted by them.
"use strict";
for (const table of document.querySelectorAll("table")) {
  const rows = table.tBodies[0] ? [...table.tBodies[0].rows] : [];
  if (rows.length < 3) continue;
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const offset = rows[0].cells.length - heads.length;
  heads.forEach((head, index) => {
    const column = index + offset;
    if (!rows.some((row) => row.cells[column]?.dataset.sort)) return;
    // Not a <button>: browsers leave form controls out of table heads that they repeat on paper.
    const button = document.createElement("span");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      button.click();
    });
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => parseFloat(row.cells[column].dataset.sort ?? "NaN");
      const sorted = [...rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return down ? y - x : x - y;
      });
      table.tBodies[0].replaceChildren(...sorted);
    });
  });
}
// Paper cannot be clicked. The style sheet opens what is folded, but not in older browsers.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((d) => { d.open = true; });
});
addEventListener("afterprint", () => opened.forEach((d) => { d.open = false; }));
