//! Pages in a browser: opened, read, clicked, and looked at for what would keep people out. Needs Chromium and, for that, axe-core, which
//! `scripts/prepare test` installs.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A browser that is asked over its own pipes (`--remote-debugging-pipe`: file 3 in, file 4 out, a zero byte after each message).
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    number: u32,
    /// What went wrong in pages: errors of scripts, and what their policy refused.
    pub faults: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// A browser with an empty page.
    pub fn open() -> Self {
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

    /// Asks the browser by a method of its protocol (DevTools).
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
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
    pub fn run(&mut self, script: &str) -> Value {
        let params =
            json!({"expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true});
        let mut answer = self.ask("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].take()
    }

    fn loaded(&mut self) {
        while self.message()["method"] != "Page.loadEventFired" {}
    }

    /// Opens a page, and waits until it is there.
    pub fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({"url": url}));
        self.loaded();
    }

    /// Presses the button with a text, and waits for the page that comes.
    pub fn press(&mut self, text: &str) {
        let script = format!(
            "[...document.querySelectorAll('main button, header button')].find((b) => b.textContent.trim() === {text:?}).click()"
        );
        self.run(&script);
        self.loaded();
    }

    /// What a reader of the page sees.
    pub fn text(&mut self) -> String {
        self.run("document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Fails if a reader of the page does not see that.
    pub fn sees(&mut self, expected: &str) {
        let text = self.text();
        assert!(text.contains(expected), "{expected:?} in {text}");
    }

    /// How wide the page is shown on a screen, and whether `light` or `dark`.
    pub fn look(&mut self, width: u32, scheme: &str) {
        self.media("screen", scheme);
        self.width(width);
    }

    /// Whether the page is on a `screen` or in `print`, `light` or `dark`.
    pub fn media(&mut self, media: &str, scheme: &str) {
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.ask("Emulation.setEmulatedMedia", json!({"media": media, "features": feature}));
    }

    /// How wide the page is shown, in px.
    pub fn width(&mut self, width: u32) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// What lies beyond the right end of the page, so that a reader would have to move it sideways.
    pub fn too_wide(&mut self) -> Vec<Value> {
        self.run(TOO_WIDE).as_array().unwrap().clone()
    }

    /// Leaves a picture in the folder `SHOTS` of the environment, if it is there.
    pub fn picture(&mut self, name: &str) {
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

const TOO_WIDE: &str = r##"(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (e) => e.checkVisibility() && e.getClientRects().length > 0;
  const most = document.documentElement.clientWidth + 1;
  const scrolls = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  for (const e of all("main *, header *, footer *")) if (shown(e) && !e.closest(".skip, thead, svg") &&
    e.getBoundingClientRect().right > most && !scrolls(e.parentElement)) faults.push("beyond the page: " + e.outerHTML.slice(0, 120));
  if (document.documentElement.scrollWidth > most) faults.push("the page scrolls sideways");
  return faults.slice(0, 12);
})()"##;

/// A script whose value is what axe-core finds in a page: each rule that it breaks, with an element.
pub fn axe() -> String {
    let program = std::fs::read_to_string(axe_file()).unwrap();
    format!(
        "{program};\naxe.run({{ resultTypes: ['violations'] }}).then((found) => found.violations.map((it) => \
         `${{it.id}}: ${{it.help}}: ${{it.nodes.length}} times, such as ${{it.nodes[0].html}}`))"
    )
}

/// Where `scripts/prepare test` puts axe-core: in a Python package, beside what is built.
fn axe_file() -> PathBuf {
    let built = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("axe/lib");
    let versions = std::fs::read_dir(&built).into_iter().flatten().flatten();
    let files = versions.map(|it| it.path().join("site-packages/axe_playwright_python/axe.min.js"));
    let mut there = files.filter(|it| it.exists());
    there.next().unwrap_or_else(|| {
        panic!("no axe-core below {}: `scripts/prepare test` installs it", built.display())
    })
}
