//! The page in a browser: 400 px wide, dark, on paper, and what a screen reader reads. Needs Chromium, which `scripts/prepare
//! test` installs.
#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use measure::suite::Suite;
use report::{Extras, Format, render};
use testkit::browser::Browser;

/// Elements that reach beyond the page; what scrolls by itself may.
const OVERFLOWING: &str = r#"(() => {
  const most = document.documentElement.clientWidth + 1;
  const scrolls = (e) => e && (getComputedStyle(e).overflowX === "auto" || scrolls(e.parentElement));
  const wide = [...document.querySelectorAll("main *, header *, nav *, footer *")].filter((e) =>
    e.getClientRects().length > 0 && e.getBoundingClientRect().right > most && !scrolls(e.parentElement));
  const texts = wide.slice(0, 5).map((e) => e.outerHTML.slice(0, 120));
  // A word that cannot be broken reaches beyond its own element.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const right = Math.max(...[...range.getClientRects()].filter((r) => r.width > 0).map((r) => r.right));
    if (right > most && !scrolls(walker.currentNode.parentElement)) texts.push(walker.currentNode.textContent.slice(0, 120));
  }
  return { page: document.documentElement.scrollWidth - document.documentElement.clientWidth, texts };
})()"#;

/// What a screen reader needs and does not find.
const UNNAMED: &str = r##"(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (document.documentElement.lang !== "en") faults.push("no language");
  for (const landmark of ["header", "nav[aria-label]", "main", "footer"])
    if (all(landmark).length !== 1) faults.push(`landmark ${landmark}`);
  for (const th of all("th")) if (!th.scope) faults.push("a heading without scope: " + th.textContent);
  for (const table of all("table")) if (!table.caption) faults.push("a table without caption");
  for (const svg of all("svg.chart")) {
    const names = (svg.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id));
    if (svg.getAttribute("role") !== "img" || names.length < 1 || names.some((n) => !n || !n.textContent.trim()))
      faults.push("a chart without title and description");
  }
  for (const e of all(".good, .careful, .bad")) if (!e.querySelector(".word")?.textContent.trim())
    faults.push("a meaning by colour alone: " + e.textContent.slice(0, 60));
  return faults;
})()"##;

#[test]
fn the_page_is_whole_on_a_telephone_on_paper_in_the_dark_and_for_a_screen_reader() {
    let text = measure::suite::builtin("eantc-tcp").unwrap();
    let extras = Extras::of_suite(&Suite::parse("eantc-tcp", text).unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    let run = sample::eantc_tcp(&["linux", "nftables", "iptables", "rampart"]);
    std::fs::write(&path, render(&run, Format::Html, &extras).unwrap()).unwrap();
    let mut browser = Browser::open();
    browser.go(&format!("file://{}", path.display()));

    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
    for width in [400, 900, 1400] {
        browser.width(width);
        let found = browser.run(OVERFLOWING);
        assert_eq!(
            (&found["page"], found["texts"].as_array().unwrap().len()),
            (&0.into(), 0),
            "{width} px: {found}"
        );
    }
    assert_eq!(browser.run(UNNAMED), serde_json::json!([]));

    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = false; })");
    let ground = |browser: &mut Browser| browser.run("getComputedStyle(document.body).backgroundColor");
    browser.media("screen", "light");
    let light = ground(&mut browser);
    browser.media("screen", "dark");
    assert_ne!(ground(&mut browser), light, "the dark has a ground of its own");

    // Without a script: what is folded is open on paper by the style sheet alone.
    browser.media("print", "dark");
    assert_eq!(ground(&mut browser), "rgb(255, 255, 255)", "paper is white");
    let closed = "[...document.querySelectorAll('details:not([open]) table')].filter((t) => !t.checkVisibility({contentVisibilityAuto: true}) || t.getBoundingClientRect().height === 0).length";
    assert_eq!(browser.run(closed), 0, "folded tables that paper would not show");
    let wide = browser.run("getComputedStyle(document.querySelector('nav')).display");
    assert_eq!(wide, "none", "links lead nowhere on paper");
    browser.media("screen", "light");
    assert!(browser.run(closed).as_u64().unwrap() > 0, "on a screen they are folded, so the check can fail");
}
