// Keeps the part #live current while the page is seen, and counts down. Everything works without it.
(function () {
  "use strict";
  var EVERY = 5000;
  var part = document.getElementById("live");
  var paused = false;

  function countDown() {
    var clock = document.querySelector("[data-until]");
    if (!clock) return;
    var left = Math.round((Date.parse(clock.dataset.until) - Date.now()) / 1000);
    // A clock that is wrong by hours says nothing.
    if (left > 86400) return;
    clock.textContent = left > 0 ? left + " s" : "now";
  }
  setInterval(countDown, 1000);
  countDown();
  if (!part) return;

  var button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Pause updates";
  button.addEventListener("click", function () {
    paused = !paused;
    button.textContent = paused ? "Resume updates" : "Pause updates";
  });
  var place = document.getElementById("pause");
  if (place) place.appendChild(button);

  // Nothing is exchanged under somebody's hands.
  function isBusy() {
    var selection = document.getSelection();
    return paused || document.hidden || part.contains(document.activeElement) ||
      (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  }

  function update() {
    if (isBusy()) return;
    fetch(location.href, { headers: { "Rampart-Live": "1" }, credentials: "same-origin", redirect: "error" })
      .then(function (answer) {
        if (answer.status === 401) location.reload();
        return answer.ok ? answer.text() : Promise.reject(new Error(answer.statusText));
      })
      .then(function (text) {
        // A document that is parsed runs no script and loads nothing; the server has escaped every text in it.
        var fresh = new DOMParser().parseFromString(text, "text/html").getElementById("live");
        if (!fresh || isBusy()) return;
        part.replaceChildren.apply(part, Array.from(fresh.childNodes));
        part.dataset.updates = String(Number(part.dataset.updates || 0) + 1);
        document.body.classList.remove("stale");
        countDown();
      })
      .catch(function () { document.body.classList.add("stale"); });
  }
  setInterval(update, EVERY);
})();
