//! The pages in a browser: a day of an administrator by clicks, at two widths, light and dark. Needs Chromium, which `scripts/prepare
//! test` installs as it does axe-core, which finds what a page has that keeps people out. With `SHOTS=folder` it leaves pictures of every page.

use crate::bed::{Bed, PASSWORD};
use crate::connections::Served;
use crate::firewall::POLICY;
use rampart_web::server::Bounds;
use serde_json::{Value, json};
use testkit::browser::{Browser, axe};

/// What people who use a telephone, a keyboard or a screen reader would stumble over.
const FAULTS: &str = r##"(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  if (document.documentElement.lang !== "en" || !document.title) faults.push("no language or title");
  if (all("h1").length !== 1) faults.push("not one h1");
  let level = 1;
  for (const h of all("h1, h2, h3, h4, h5")) {
    if (Number(h.tagName[1]) > level + 1) faults.push("a heading that skips a level: " + h.textContent);
    level = Number(h.tagName[1]);
  }
  for (const e of all("input:not([type=hidden]), select, textarea")) if (shown(e) && !e.labels?.length && !e.ariaLabel) faults.push("no label: " + e.outerHTML);
  for (const e of all("button, a")) if (!(e.ariaLabel || e.textContent.trim())) faults.push("no name: " + e.outerHTML);
  for (const e of all("svg[role=img]")) if (!e.ariaLabel) faults.push("a picture without words");
  for (const e of all("th")) if (!e.scope && !e.closest(".guide")) faults.push("a heading without scope: " + e.outerHTML);
  for (const e of all("table")) if (!e.caption && !e.closest(".guide")) faults.push("a table without caption");
  for (const e of all("[style], [onclick], script:not([src])")) faults.push("inline: " + e.outerHTML.slice(0, 120));
  const ids = all("[id]").map((e) => e.id);
  if (new Set(ids).size !== ids.length) faults.push("an id twice");
  for (const e of all("button, select, input:not([type=hidden]):not([type=checkbox])")) if (shown(e) && e.getBoundingClientRect().height < 24) faults.push("too small to hit: " + e.outerHTML);
  // Contrast as WCAG 2.2 has it, 4.5 for text.
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(e) || !shown(e) || e.closest("svg, option, meter")) continue;
    seen.add(e);
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faults.push(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}: ` + e.outerHTML.slice(0, 120));
  }
  return [...new Set(faults)].slice(0, 12);
})()"##;

/// All that is found in a page as it is shown now.
fn faults(browser: &mut Browser) -> Vec<Value> {
    let mut faults = browser.too_wide();
    faults.extend(browser.run(FAULTS).as_array().unwrap().iter().cloned());
    faults.extend(browser.run(&axe()).as_array().unwrap().iter().cloned());
    faults
}

const PAGES: [&str; 17] = [
    "/",
    "/rules",
    "/flows?dport=443",
    "/events",
    "/drops",
    "/blocks",
    "/lists",
    "/nat",
    "/policy",
    "/explain?from=inside&source=10.0.0.5&destination=192.0.2.1&service=tcp/25",
    "/history",
    "/history/entry?number=1",
    "/audit",
    "/users",
    "/account",
    "/help",
    "/help/page?name=web",
];

#[test]
fn an_administrator_works_in_a_browser() {
    let bed = Bed::with(false);
    // The firewall in memory counts on with each question.
    for _ in 0..3 {
        bed.app.sample(jiff::Timestamp::now()).unwrap();
    }
    let served =
        Served::start(&bed, None, Bounds { connections: 64, of_an_address: 64, ..Bounds::default() });
    let url = |path: &str| format!("http://{}{path}", served.address);
    let mut browser = Browser::open();
    browser.look(1280, "light");

    browser.go(&url("/"));
    browser.picture("login");
    assert_eq!(faults(&mut browser), [json!(null); 0]);
    browser.run(&format!(
        "document.querySelector('[name=name]').value = 'anna'; document.querySelector('[name=password]').value = {PASSWORD:?}"
    ));
    browser.press("Log in");
    browser.sees("Needs attention");

    for (width, scheme) in [(1280, "light"), (400, "dark")] {
        browser.look(width, scheme);
        for page in PAGES {
            browser.go(&url(page));
            let faults = faults(&mut browser);
            let name = page.split('?').next().unwrap().replace('/', "-");
            browser.picture(&format!("{width}{name}"));
            assert_eq!(faults, [json!(null); 0], "{page} at {width} px, {scheme}");
        }
    }

    // A mistake is shown with its place, and the place is found in the text.
    browser.look(1280, "light");
    browser.go(&url("/policy"));
    browser.run(
        "{ const t = document.getElementById('text'); t.value = t.value.replace(\"'allow'\", \"'alow'\"); }",
    );
    browser.press("Check");
    browser.sees("line 11, column 10");
    assert_eq!(faults(&mut browser), [json!(null); 0], "mistakes");
    browser.picture("mistake");
    let selected = "document.querySelector('a[data-line]').click(); (() => { const t = document.getElementById('text'); return t.value.slice(t.selectionStart, t.selectionEnd); })()";
    assert_eq!(browser.run(selected), "'alow'");
    browser.run(
        "{ const t = document.getElementById('text'); t.value = t.value.replace(\"'alow'\", \"'deny'\"); }",
    );
    browser.press("Show changes");
    browser.sees("1 line added, 1 removed");
    assert_eq!(faults(&mut browser), [json!(null); 0], "changes");
    browser.picture("changes");
    browser.press("Put it in force");
    browser.sees("Policy 2 of the history, by anna (by rampart-web), waits to be confirmed");
    assert_eq!(bed.firewall.text_in_force(), POLICY.replace("'allow'", "'deny'"));
    browser.picture("waits");

    let counted = "/^[0-9]{3} s$/.test(document.querySelector('[data-until]').textContent)";
    assert_eq!(browser.run(counted), true, "it counts down");

    // The page follows by itself, with its own script and nothing else.
    browser.run("new Promise((done) => { const live = document.getElementById('live'); new MutationObserver(done).observe(live, { attributes: true }); }).then(() => true)");
    browser.press("Keep this policy");
    browser.sees("is confirmed and stays");
    assert!(!bed.firewall.waits());

    browser.press("Log out");
    browser.go(&url("/rules"));
    browser.sees("Password");
    assert_eq!(browser.faults, Vec::<String>::new());
}
