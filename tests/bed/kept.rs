//! Runs that end are kept, and a file of runs that cannot be written costs no run anything.

use crate::{bench, shown, suite};
use history::{Place, Store};
use testkit::turn;

#[test]
fn a_run_that_ends_is_kept_and_none_fails_because_it_cannot_be() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let suite = suite(dir.path(), &["wire"], 0.05, "procedure = \"latency\"\nloads = [1000]");
    let damaged = dir.path().join("damaged.sqlite");
    std::fs::write(&damaged, "no database ".repeat(500)).unwrap();
    let whole = dir.path().join("state/history.sqlite");
    let rows = [
        (whole.as_path(), None),
        (damaged.as_path(), Some("is damaged or no SQLite database")),
        // Not even root may make a folder there.
        (std::path::Path::new("/proc/nowhere/history.sqlite"), Some("cannot make the folder")),
        // A disk that is full.
        (std::path::Path::new("/dev/full"), Some("this run is not in the history")),
    ];
    for (number, (file, said)) in rows.iter().enumerate() {
        let out = dir.path().join(format!("out-{number}"));
        let mut run =
            bench(&["run", suite.to_str().unwrap(), "--commit", "abc", "--out", out.to_str().unwrap()]);
        let output = run.env("RAMPART_BENCH_HISTORY", file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{file:?}: {}", shown(&output));
        assert!(report::load(&out).unwrap().complete, "{file:?}");
        for words in said.iter().chain(said.map(|_| &"its results are whole")) {
            assert!(shown(&output).contains(words), "{file:?}: {}", shown(&output));
        }
        assert_eq!(said.is_none(), !shown(&output).contains("not in the history"), "{}", shown(&output));
    }
    let store = Store::read(&Place::file(&whole)).unwrap();
    let [run] = store.runs().unwrap().try_into().unwrap();
    assert!(run.complete && run.suite_hash.is_some() && run.versions["commit"] == "abc", "{run:?}");
    assert_eq!(run.path, std::fs::canonicalize(dir.path().join("out-0")).unwrap().to_str().unwrap());
    assert!(store.live().unwrap().is_empty(), "what goes on no longer is not said to");
}
