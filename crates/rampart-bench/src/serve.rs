//! `serve`: wires the command line to the server of pages.

use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::history;
use crate::interrupt::Interrupt;
use ::history::serve::Server;

/// Serves until the user ends it.
pub(crate) fn serve(args: &ServeArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let server = Server::bind(&args.listen, &history::place(&args.file)?)?;
    let address = server.address()?;
    crate::say(&format!("serving on http://{address}/ until Ctrl-C"));
    if !address.ip().is_loopback() {
        crate::say("everyone who reaches this address can read the runs: pages ask for no password");
    }
    server.run(|| interrupt.asked());
    Ok(())
}
