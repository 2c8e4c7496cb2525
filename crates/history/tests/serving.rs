//! The pages of `serve`: what they show, with script and without it, and what they refuse.
#![allow(clippy::unwrap_used, reason = "a test")]

mod runs;

use history::live::Live;
use history::serve::Server;
use history::{Place, Store};
use report::journal::{self, Header, Writer};
use runs::{noise, run_at};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server over a file of its own, which stops when it is dropped.
struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    dir: tempfile::TempDir,
    place: Place,
}

impl Served {
    fn new() -> Self {
        Self::with_streams_of(Duration::from_secs(1))
    }

    fn with_streams_of(stream_for: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::file(&dir.path().join("history.sqlite"));
        let server = Server::bind("127.0.0.1:0", &place).unwrap().with_streams_of(stream_for);
        let (address, stop) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || server.run(|| stopped.load(Ordering::Relaxed)));
        Self { address, stop, dir, place }
    }

    fn with_runs() -> Self {
        let served = Self::new();
        let mut store = Store::write(&served.place).unwrap();
        for day in 0..12 {
            let mut run = run_at(day, noise(day) * if day < 6 { 1.0 } else { 1.5 });
            // What somebody else may have written into a folder.
            run.environment.versions.insert("commit".into(), "<script>alert(1)</script>\"'&".into());
            let folder = served.dir.path().join(format!("run-{day}"));
            std::fs::create_dir(&folder).unwrap();
            report::write_all(&folder, &run, &report::Extras::default()).unwrap();
            store.record(&folder, &run, None).unwrap();
        }
        served
    }

    fn send(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that refuses may close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn pages_show_runs_and_trends_and_escape_what_others_wrote() {
    let served = Served::with_runs();
    let rows: &[(&str, u16, &[&str])] = &[
        (
            "/",
            200,
            &["Kept runs", "/runs/12\"", "2026-01-12T08:00:00Z", "No run goes on", "&lt;script&gt;alert(1)"],
        ),
        ("/?before=5", 200, &["/runs/4\""]),
        ("/runs/3", 200, &["AMD EPYC", "throughput", "kpps", "&lt;script&gt;alert(1)"]),
        ("/runs/3/report", 200, &["<style>", "nftables"]),
        (
            "/trend",
            200,
            &["<svg class=\"chart\"", "probability of at most 5 %", "changed between run 6 and run 7"],
        ),
        ("/trend?dut=linux&metric=throughput&set=frame%3D64", 200, &["class=\"change\"", "changed here"]),
        ("/trend?metric=speed", 200, &["there is no metric named speed"]),
        ("/trend?suite=%3Cb%3E", 200, &["no recorded run has such a point", "value=\"&lt;b&gt;\""]),
        ("/trend?absolute=yes&from=999999999999", 200, &["Trends"]),
        ("/overlay?run=1&run=12", 200, &["<svg", "run 12"]),
        ("/overlay", 200, &["Mark one to 12 runs"]),
        ("/style.css", 200, &["prefers-color-scheme"]),
        ("/script.js", 200, &["EventSource"]),
        ("/runs/99", 404, &["there is no run 99"]),
        ("/runs/3/../../etc/passwd", 404, &["no such page"]),
        ("/../../../../etc/passwd", 404, &["no such page"]),
        ("/%2e%2e/%2e%2e/etc/passwd", 404, &["no such page"]),
        ("/runs/1%00/report", 404, &["no such page"]),
        ("//etc/passwd", 404, &["no such page"]),
    ];
    for (path, expected, said) in rows {
        let answer = served.get(path);
        assert_eq!(status(&answer), *expected, "{path}: {answer}");
        for words in *said {
            assert!(answer.contains(words), "{path} does not say «{words}»:\n{answer}");
        }
        assert!(!answer.contains("<script>alert"), "{path} lets a script through");
        for field in ["Content-Security-Policy: default-src 'none'", "nosniff", "frame-ancestors 'none'"] {
            assert!(answer.contains(field), "{path} lacks {field}");
        }
        let policy = answer.lines().find(|line| line.starts_with("Content-Security-Policy")).unwrap();
        assert!(!policy.contains("unsafe"), "{policy}");
    }
    let run = served.get("/runs/3");
    assert_eq!(
        status(&served.send(format!("HEAD /runs/3 HTTP/1.1\r\nHost: {}\r\n\r\n", served.address).as_bytes())),
        200
    );
    assert!(run.contains("Content-Length"), "{run}");
}

#[test]
fn foreign_names_methods_and_heads_without_end_are_refused() {
    let served = Served::with_runs();
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(200));
    let rows = [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\n\r\n", 421),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 405),
        ("DELETE /runs/1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("nonsense\r\n\r\n", 400),
        (&long, 431),
        (&many, 431),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
    ];
    for (request, expected) in rows {
        let answer = served.send(request.as_bytes());
        assert_eq!(status(&answer), expected, "{}: {answer}", request.get(..40).unwrap_or(request));
    }
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out() {
    let served = Served::with_runs();
    let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    assert_eq!(status(&served.get("/")), 200);
    let more: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    let turned_away = served.get("/");
    assert!(matches!(status(&turned_away), 503 | 0), "{turned_away}");
    drop((idle, more));
    // They have left, which their threads see at once.
    let again = (0..200).any(|_| status(&served.get("/")) == 200);
    assert!(again, "the server answers again when others have left");
}

#[test]
fn without_runs_and_with_a_damaged_file_pages_say_so() {
    let served = Served::new();
    assert!(served.get("/").contains("no runs are recorded yet"));
    std::fs::write(served.dir.path().join("history.sqlite"), "no database ".repeat(500)).unwrap();
    let answer = served.get("/");
    assert!(status(&answer) == 500 && answer.contains("is damaged"), "{answer}");
}

/// A run of this process, with a journal that grows.
struct Going {
    journal: Writer,
    run: measure::results::Results,
}

impl Going {
    fn begin(served: &Served) -> Self {
        let run = run_at(30, 1.0);
        let folder = served.dir.path().join("going");
        std::fs::create_dir(&folder).unwrap();
        let journal = Writer::create(&folder, &Header::of(&run)).unwrap();
        let live = Live::of_this_process(&folder, &run, run.cells.len() as u32, 600.0);
        Store::write(&served.place).unwrap().begin(&live).unwrap();
        Self { journal, run }
    }

    fn measure(&mut self, cell: usize) {
        for entry in journal::entries(&self.run.cells[cell], &self.run.runs, &self.run.points) {
            self.journal.append(entry).unwrap();
        }
    }
}

#[test]
fn a_run_that_goes_on_is_followed() {
    let served = Served::with_streams_of(Duration::from_secs(600));
    let mut going = Going::begin(&served);
    assert!(served.get("/").contains("0 of 2 settings measured"));
    let mut stream = TcpStream::connect(served.address).unwrap();
    write!(stream, "GET /live/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut read_until = |words: &str| {
        let mut piece = [0; 4096];
        while !text.contains(words) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the stream ended without «{words}»: {text}");
            text += &String::from_utf8_lossy(&piece[..count]);
        }
    };
    read_until("text/event-stream");
    read_until("0 of 2 settings measured");
    going.measure(0);
    read_until("1 of 2 settings measured");
    assert!(served.get("/").contains("The latest values"));
    let folder = served.dir.path().join("going");
    Store::write(&served.place).unwrap().record(&folder, &going.run, None).unwrap();
    assert!(served.get("/").contains("No run goes on"));
}

/// What Chromium makes of a page.
fn seen(url: &str, script: bool) -> String {
    let profile = tempfile::tempdir().unwrap();
    if !script {
        let folder = profile.path().join("Default");
        std::fs::create_dir(&folder).unwrap();
        let off = r#"{"profile": {"default_content_setting_values": {"javascript": 2}}}"#;
        std::fs::write(folder.join("Preferences"), off).unwrap();
    }
    let program = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
        .expect("a Chromium: scripts/prepare test installs it");
    let output = Command::new("timeout")
        .args(["60", program, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--virtual-time-budget=2500")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(url)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_browser_shows_the_pages_with_script_and_without() {
    let served = Served::with_runs();
    let mut going = Going::begin(&served);
    going.measure(0);
    let url = format!("http://{}", served.address);
    for script in [true, false] {
        let page = seen(&format!("{url}/"), script);
        for words in ["1 of 2 settings measured", "The latest values", "Kept runs", "2026-01-12T08:00:00Z"] {
            assert!(page.contains(words), "script {script}: «{words}» is not in\n{page}");
        }
        // Only script sets this, when an update has come.
        assert_eq!(page.contains("data-updated=\"yes\""), script, "{page}");
    }
    let trend = seen(&format!("{url}/trend?dut=linux&metric=throughput"), false);
    assert!(trend.contains("<svg") && trend.contains("changed between run 6 and run 7"), "{trend}");
}

#[test]
fn a_port_that_is_taken_is_said() {
    let served = Served::new();
    let again = Server::bind(&served.address.to_string(), &served.place);
    assert!(again.unwrap_err().to_string().contains("cannot listen on 127.0.0.1:"));
    assert!(Server::bind("no port", &Place::file(Path::new("x"))).is_err());
}
