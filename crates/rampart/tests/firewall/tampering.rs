//! What others do at the firewall's interfaces: programs of their own, and taking ours away. Nothing is replaced in silence, and
//! nothing opens.

use crate::bed::{Bed, Outcome};
use crate::{REJECT, WEB};
use nix::sys::signal::Signal;
use testkit::filter::{Filter, PASS};

/// A program that lets every frame pass, of somebody else.
const THEIRS: &str = "pass";

fn put_theirs(bed: &Bed, theirs: &Filter, interface: &str) {
    theirs.attach_driver(THEIRS, bed.host("fw"), bed.host("fw").ifindex(interface));
}

#[test]
fn needs_root_somebody_elses_program_in_a_driver_is_named_and_left_alone() {
    let bed = Bed::new();
    let theirs = Filter::load(PASS);
    put_theirs(&bed, &theirs, "e1");
    let policy = bed.policy("p.toml", &format!("{WEB}{REJECT}"));
    let (status, text) = bed.rampart(&["up", &policy, "--hook", "xdp"]);
    assert!(status == 3 && text.contains("`e1` has the program `pass` (number "), "{text}");
    assert!(
        bed.inside("fw", || dataplane::Earlier::find().unwrap()).is_none(),
        "nothing is left of the attempt"
    );
    // Behind the driver there is room for both.
    bed.serve(8080);
    let mut firewall = bed.up(&policy, "tc");
    bed.expect(8080, Outcome::Answered, "both");
    firewall.signal(Signal::SIGINT);
    firewall.end();
    let shown = bed.host("fw").run("ip", &["-details", "link", "show", "dev", "e1"]);
    assert!(shown.contains("prog/xdp id"), "theirs is still there: {shown}");
}

#[test]
fn needs_root_what_somebody_takes_away_is_put_back_and_reported() {
    for hook in ["tc", "xdp"] {
        let bed = Bed::new();
        bed.serve(8080);
        let mut firewall = bed.up(&bed.policy("p.toml", &format!("{WEB}{REJECT}")), hook);
        let own = bed.listen_on_the_firewall();
        bed.inside("fw", || dataplane::take_from("e1").unwrap());
        let reported =
            firewall.until("trouble: e1: somebody took the firewall's program away where packets go out");
        assert!(reported.contains("where packets come in (TC); it is there again"), "{reported}");
        assert_eq!(reported.contains("in the driver (XDP); it is there again"), hook == "xdp", "{reported}");
        assert!(bed.json(&["status"])["troubles"].to_string().contains("took the firewall's program away"));
        bed.expect_of_the_firewall(own, Outcome::Silence, &format!("{hook}: the firewall is closed again"));
        bed.expect(8080, Outcome::Answered, &format!("{hook}: and forwards again"));
    }
}

#[test]
fn needs_root_a_firewall_that_is_ousted_from_the_driver_judges_behind_it() {
    let bed = Bed::new();
    bed.serve(8080);
    let mut firewall = bed.up(&bed.policy("p.toml", &format!("{WEB}{REJECT}")), "xdp");
    let own = bed.listen_on_the_firewall();
    let theirs = Filter::load(PASS);
    put_theirs(&bed, &theirs, "e1");
    firewall.until("trouble: e1: the program number ");
    bed.expect_of_the_firewall(own, Outcome::Silence, "judged behind the driver");
    bed.until_call(8080, Outcome::Answered);
    let interfaces = &bed.json(&["status"])["interfaces"];
    let of = |name: &str| interfaces.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    assert_eq!((&of("e1")["hook"], &of("e0")["hook"]), (&"tc".into(), &"xdp".into()), "{interfaces}");
    assert!(of("e1")["note"].to_string().contains("the program number "), "{interfaces}");
}
