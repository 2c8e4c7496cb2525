//! The tutorials of the firewall, done as they are written.

use std::path::Path;
use testkit::tutorial::follow;

fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_rampart")).parent().unwrap()
}

#[test]
fn needs_root_the_first_firewall_is_as_its_tutorial_says() {
    follow("docs/tutorials/first-firewall.md", programs());
}

#[test]
fn needs_root_the_home_gateway_is_as_its_tutorial_says() {
    follow("docs/tutorials/home-gateway.md", programs());
}

#[test]
fn needs_root_the_office_with_a_dmz_is_as_its_tutorial_says() {
    follow("docs/tutorials/office-dmz.md", programs());
}
