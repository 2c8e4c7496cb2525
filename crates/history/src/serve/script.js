// Live updates; everything else on these pages works without script.
(function () {
  "use strict";
  var part = document.getElementById("live");
  if (!part || !window.EventSource) return;
  new EventSource("/live/events").onmessage = function (event) {
    // The server has escaped every text in it.
    part.innerHTML = event.data;
    part.dataset.updated = "yes";
  };
})();
