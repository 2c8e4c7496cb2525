//! The tutorials of the bench, done as they are written.

use std::path::Path;
use testkit::tutorial::follow;

fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_rampart-bench")).parent().unwrap()
}

#[test]
fn the_first_measurement_is_as_its_tutorial_says() {
    let _turn = testkit::turn();
    follow("docs/tutorials/first-measurement.md", programs());
}

#[test]
fn a_box_of_ones_own_is_measured_as_its_tutorial_says() {
    let _turn = testkit::turn();
    follow("docs/tutorials/own-box.md", programs());
}
