//! The pages in a browser: a day of an administrator by clicks, at two widths, light and dark. Needs Chromium, which `scripts/prepare
//! test` installs. With `SHOTS=folder` it leaves pictures of every page.

use crate::bed::{Bed, PASSWORD};
use crate::connections::Served;
use crate::firewall::POLICY;
use rampart_web::server::Bounds;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A browser that is asked over its own pipes (`--remote-debugging-pipe`: file 3 in, file 4 out, a zero byte after each message).
struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    number: u32,
    /// What went wrong in pages: errors of scripts, and what their policy refused.
    faults: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn open() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let there =
            |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
        let name = names.iter().find(there).expect("no Chromium: scripts/prepare test");
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 >/dev/null 2>&1 </dev/null", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser =
            Self { child, to, from, session: None, number: 0, faults: Vec::new(), _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session =
            Some(browser.ask("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, json!({}));
        }
        browser
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&bytes).unwrap();
        let is_fault = message["method"] == "Runtime.exceptionThrown"
            || message["method"] == "Page.javascriptDialogOpening"
            || message["params"]["entry"]["source"] == "security";
        if is_fault {
            self.faults.push(message.to_string());
        }
        message
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        write!(self.to, "{message}\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let mut answer = self.message();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    /// The value of a script's last expression.
    fn run(&mut self, script: &str) -> Value {
        let params =
            json!({"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true});
        let mut answer = self.ask("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].take()
    }

    fn loaded(&mut self) {
        while self.message()["method"] != "Page.loadEventFired" {}
    }

    fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
        self.loaded();
    }

    /// Presses the button with a text, and waits for the page that comes.
    fn press(&mut self, text: &str) {
        let script = format!(
            "[...document.querySelectorAll('main button, header button')].find((b) => b.textContent.trim() === {text:?}).click()"
        );
        self.run(&script);
        self.loaded();
    }

    fn text(&mut self) -> String {
        self.run("document.body.innerText").as_str().unwrap().to_owned()
    }

    fn sees(&mut self, expected: &str) {
        let text = self.text();
        assert!(text.contains(expected), "{expected:?} in {text}");
    }

    fn look(&mut self, width: u32, scheme: &str) {
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"media": "screen", "features": feature}));
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
    }

    fn picture(&mut self, name: &str) {
        let Ok(folder) = std::env::var("SHOTS") else { return };
        let shot = self.ask("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        // Base64 is left to who looks at them.
        let path = std::path::Path::new(&folder).join(format!("{name}.b64"));
        std::fs::write(path, shot["data"].as_str().unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What people who use a telephone, a keyboard or a screen reader would stumble over.
const FAULTS: &str = r##"(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  const most = document.documentElement.clientWidth + 1;
  const scrolls = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  for (const e of all("main *, header *, footer *")) if (shown(e) && !e.closest(".skip, thead, svg") &&
    e.getBoundingClientRect().right > most && !scrolls(e.parentElement)) faults.push("beyond the page: " + e.outerHTML.slice(0, 120));
  if (document.documentElement.scrollWidth > most) faults.push("the page scrolls sideways");
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
    assert_eq!(browser.run(FAULTS), json!([]));
    browser.run(&format!(
        "document.querySelector('[name=name]').value = 'anna'; document.querySelector('[name=password]').value = {PASSWORD:?}"
    ));
    browser.press("Log in");
    browser.sees("Needs attention");

    for (width, scheme) in [(1280, "light"), (400, "dark")] {
        browser.look(width, scheme);
        for page in PAGES {
            browser.go(&url(page));
            let faults = browser.run(FAULTS);
            let name = page.split('?').next().unwrap().replace('/', "-");
            browser.picture(&format!("{width}{name}"));
            assert_eq!(faults, json!([]), "{page} at {width} px, {scheme}");
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
    assert_eq!(browser.run(FAULTS), json!([]), "mistakes");
    browser.picture("mistake");
    let selected = "document.querySelector('a[data-line]').click(); (() => { const t = document.getElementById('text'); return t.value.slice(t.selectionStart, t.selectionEnd); })()";
    assert_eq!(browser.run(selected), "'alow'");
    browser.run(
        "{ const t = document.getElementById('text'); t.value = t.value.replace(\"'alow'\", \"'deny'\"); }",
    );
    browser.press("Show changes");
    browser.sees("1 line added, 1 removed");
    assert_eq!(browser.run(FAULTS), json!([]), "changes");
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
