//! `otg`: wires the command line to the server of the Open Traffic Generator API.

use crate::cli::{BetweenName, OtgArgs};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use ::otg::{Between, Server, Settings};
use std::time::Duration;
use testbed::TestbedError;

/// What the generator's schedule has room for.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// Serves until the user ends it.
pub(crate) fn otg(args: &OtgArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.longest.is_zero() || args.longest > LONGEST {
        return Err(Failure::Wrong("--longest: more than nothing, and 4h at the most".to_owned()));
    }
    let online = testbed::placement::cores_online();
    if !online.iter().any(|&core| core as usize == args.core) {
        return Err(Failure::Wrong(format!("--core {}: this machine has {online:?}", args.core)));
    }
    if !crate::run::is_root() {
        return Err(TestbedError::NotRoot.into());
    }
    let between = match args.between {
        BetweenName::Wire => Between::Wire,
        BetweenName::Router => Between::Router,
    };
    let settings = Settings { between, longest: args.longest, core: args.core, force: args.force };
    let server = Server::bind(&args.listen, args.allow_remote, settings)?;
    let address = server.address()?;
    crate::say(&format!(
        "serving the Open Traffic Generator API on https://{address}/ and http://{address}/, and by gRPC, until Ctrl-C"
    ));
    if args.allow_remote {
        crate::say(
            "everyone who reaches this address can send traffic from this machine: nobody is asked for a password",
        );
    }
    server.run(|| interrupt.asked());
    Ok(())
}
