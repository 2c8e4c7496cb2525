//! Lying firewalls: each does one thing that would make it look faster or safer than it is, and must get no value, with a reason that
//! names the lie. `docs/design/trust.md` says what is checked, and which lies cannot be caught. Needs root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod frames;
