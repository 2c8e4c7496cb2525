//! Any text as a policy: errors, or a policy whose warnings and tables can be made. `RUSTC_BOOTSTRAP=1 cargo fuzz run policy
//! fuzz/corpus/policy examples/policies`; the examples are the seeds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policy::Policy;

fuzz_target!(|text: &str| {
    match Policy::parse("fuzz", text) {
        Ok(policy) => {
            policy.warnings();
            let _ = policy::Tables::build(&policy, jiff::Timestamp::UNIX_EPOCH);
            policy.next_change(jiff::Timestamp::UNIX_EPOCH);
        }
        Err(problems) => assert!(!problems.list().is_empty()),
    }
});
