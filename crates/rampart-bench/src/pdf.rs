//! A report as PDF: the page, printed by a Chromium where there is one. Root does not run a browser: it runs as the user who called
//! sudo, or as nobody.

use crate::failure::Failure;
use ::history::place::Caller;
use std::io::{IsTerminal as _, Read as _, Seek as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Programs that can print a page, the first that is there.
const BROWSERS: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell"];

/// A page of a full suite takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// User and group of nobody, where the system does not say otherwise.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// The page as PDF: on standard output, or, where that is a terminal, as `report.pdf` in the run's folder.
pub(crate) fn print(dir: &Path, html: &str) -> Result<(), Failure> {
    let pdf = of_page(html)?;
    if !std::io::stdout().is_terminal() {
        crate::output::out_bytes(&pdf);
        return Ok(());
    }
    let path = dir.join("report.pdf");
    std::fs::write(&path, pdf)
        .map_err(|e| Failure::Machine(format!("cannot write {}: {e}", path.display())))?;
    crate::output::out(&format!("{}\n", path.display()));
    Ok(())
}

fn of_page(html: &str) -> Result<Vec<u8>, Failure> {
    let browser = BROWSERS.into_iter().find(|name| found(name)).ok_or_else(|| {
        Failure::Wrong(
            "a PDF is the page printed by Chromium, and there is none on this machine: install the package chromium (or Google Chrome), \
             or print report.html in any browser"
                .to_owned(),
        )
    })?;
    let fault = |e: std::io::Error| Failure::Machine(format!("cannot prepare the page for printing: {e}"));
    // A folder of its own holds the page, the browser's profile and the PDF, and goes with all of them.
    let folder = tempfile::Builder::new().prefix("rampart-bench-pdf-").tempdir().map_err(fault)?;
    let page = folder.path().join("report.html");
    std::fs::write(&page, html).map_err(fault)?;
    let user = lesser_user();
    std::fs::set_permissions(&page, std::fs::Permissions::from_mode(0o644)).map_err(fault)?;
    if let Some((uid, gid)) = user {
        // From here on the folder is another user's: nothing in it is written any more, and only a plain file is read.
        chown(folder.path(), Some(uid), Some(gid)).map_err(fault)?;
    }
    // Some systems let no user make the namespaces of the browser's sandbox. The page is ours and has the network switched off, so it is printed
    // without one then.
    let mut said = String::new();
    for sandbox in [true, false] {
        match run(browser, folder.path(), user, sandbox) {
            Ok(pdf) => return Ok(pdf),
            Err(why) => said = why,
        }
    }
    Err(Failure::Machine(format!("{browser} did not print the page: {said}")))
}

fn found(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| {
        let meta = std::fs::metadata(folder.join(name));
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Whom root runs a browser as.
fn lesser_user() -> Option<(u32, u32)> {
    crate::run::is_root().then(|| Caller::find().map_or(NOBODY, |caller| (caller.uid, caller.gid)))
}

fn run(browser: &str, folder: &Path, user: Option<(u32, u32)>, sandbox: bool) -> Result<Vec<u8>, String> {
    let pdf = folder.join("report.pdf");
    let mut log = tempfile::tempfile().map_err(|e| e.to_string())?;
    let stderr = log.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(browser);
    command
        .args([
            "--headless=new",
            "--disable-gpu",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
        ])
        // Names lead nowhere and addresses to a closed port: a report needs no network.
        .args([
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--proxy-server=127.0.0.1:9",
            "--no-pdf-header-footer",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .args(if sandbox { None } else { Some("--no-sandbox") })
        .arg(folder.join("report.html"))
        .env("HOME", folder)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_CACHE_HOME")
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let ended = wait(&mut child);
    let plain = std::fs::symlink_metadata(&pdf).is_ok_and(|meta| meta.is_file());
    let bytes = if plain { std::fs::read(&pdf) } else { Ok(Vec::new()) };
    match bytes {
        Ok(bytes) if ended && bytes.starts_with(b"%PDF-") => Ok(bytes),
        _ if !ended => Err(format!("it took longer than {} s", PATIENCE.as_secs())),
        _ => {
            let mut text = Vec::new();
            let _ = log.rewind().and_then(|()| log.read_to_end(&mut text));
            let text = String::from_utf8_lossy(&text);
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            Err(last.chars().filter(|c| !c.is_control()).take(300).collect())
        }
    }
}

/// Whether it ended in time; otherwise it is ended, with all that it started.
fn wait(child: &mut Child) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(_)) => return true,
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
    false
}
