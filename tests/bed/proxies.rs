//! Proxies in whole runs: what one does not carry is said, and one that answers from its memory has no value.

use super::{again_while, bench, is_disturbed, of, results, shown, suite, turn};
use measure::results::{MarkKind, Reading};
use std::os::unix::fs::PermissionsExt;

/// What a proxy does not carry is no failure of it.
#[test]
fn what_a_proxy_does_not_carry_is_not_supported_and_says_why() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    for (number, (dut, test, said)) in [
        ("haproxy", "procedure = \"transactions\"\nfactors.protocol = \"nstl\"", "haproxy cannot do FTP"),
        ("squid", "procedure = \"transactions\"\nfactors.protocol = \"https\"", "squid cannot do HTTPS"),
        (
            "haproxy",
            "procedure = \"transactions\"\nfactors.look_ups = true",
            "haproxy cannot do look-ups of names (`look_ups`)",
        ),
        (
            "squid",
            "procedure = \"latency\"\nloads = [2000]",
            "squid cannot do traffic other than of applications",
        ),
        (
            "haproxy",
            "procedure = \"connection-rate\"",
            "haproxy cannot do traffic other than of applications",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let suite = suite(dir.path(), &["linux", dut], 0.05, test);
        let results = results(&suite, &dir.path().join(number.to_string()), &[]);
        let points = of(&results, dut);
        assert!(!points.is_empty(), "{dut}: {test}");
        for point in points {
            let mark = point.marks.iter().find(|mark| mark.kind == MarkKind::NotSupported);
            assert!(
                !point.valid && mark.is_some_and(|mark| mark.text.contains(said)),
                "{dut}: {:?}",
                point.marks
            );
        }
    }
}

/// A real proxy with its cache on, and the same without: only the seal of an answer tells whose answer it is.
#[test]
fn a_squid_that_answers_from_its_cache_has_no_value_and_one_without_a_cache_has() {
    const CLIENTS: u64 = 12;
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let drivers = ["caching", "honest"].map(|name| {
        let path = dir.path().join(name);
        std::fs::write(&path, include_str!("squid_driver.py")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        format!("program:{}", path.display())
    });
    let test = format!(
        "procedure = \"transactions\"\nfactors.clients = {CLIENTS}\nfactors.object = 4\nfactors.protocol = \"http/1.1\""
    );
    let suite = suite(dir.path(), &["linux"], 0.3, &test);
    let out = dir.path().join("out");
    let duts = drivers.join(",");
    let arguments = ["run", suite.to_str().unwrap(), "--dut", &duts, "--out", out.to_str().unwrap()];
    // Each client's first request finds no answer kept: a machine that leaves time for no other shows no cache.
    let is_hidden =
        |point: &Reading<'_>| is_disturbed(point) || point.valid && point.ledger().offered < 10 * CLIENTS;
    let (output, results) = again_while(is_hidden, &out, || bench(&arguments).output().unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let results = results.unwrap();
    for (dut, is_honest) in [("caching-squid", false), ("honest-squid", true)] {
        let points = of(&results, dut);
        assert!(!points.is_empty(), "{dut}");
        for point in points {
            let sealed_otherwise =
                point.marks.iter().any(|mark| mark.text.contains("had not the server's seal"));
            let what = format!("{dut} {:?} {:?} {:?}", point.metric, point.marks, point.ledger());
            assert_eq!((point.valid, sealed_otherwise), (is_honest, !is_honest), "{what}");
        }
    }
}
