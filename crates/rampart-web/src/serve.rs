//! Starts the server: takes the port and reads the key while it may, gives its rights away, and then answers.

use crate::cli::{ServeArgs, USERS};
use crate::say;
use http_serving::{our_names, remedy};
use rampart_client::Client;
use rampart_web::app::{App, Settings};
use rampart_web::server::{Bounds, Server};
use rampart_web::tls::Identity;
use rampart_web::users::Users;
use rampart_web::{privileges, samples};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the firewall may take for the next part of an answer: reading a large policy takes it a while.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    if args.insecure_http && !args.listen.ip().is_loopback() {
        say("no TLS: whoever reads along reads passwords");
    }
    let is_root = nix::unistd::geteuid().is_root();
    let user = if is_root { Some(privileges::choose(args.user.as_deref())?) } else { None };
    // Keys that are given may be root's alone.
    let given = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => Some(Identity::read(certificate, key)?),
        _ => None,
    };
    // The port may be one that takes rights. All that is written is written when they are gone, and a mistake leaves no folder behind.
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| format!("cannot listen on {}: {error}{}", args.listen, remedy(&error)))?;
    crate::prepare(&args.state, user.as_ref())?;
    if let Some(user) = &user {
        privileges::become_user(user)?;
        privileges::may_use(&args.state, user)?;
    }
    let (app, has_users) = app(args)?;
    let wants_own = given.is_none() && !args.insecure_http;
    let identity = if wants_own { Some(own(args)?) } else { given };
    let tls = identity.as_ref().map(|it| Arc::clone(&it.config));
    let server = Server::new(listener, Arc::clone(&app), tls, Bounds::default())
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended))
            .map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    sample(&app);
    let address = server.address().map_err(|error| error.to_string())?;
    let scheme = if identity.is_some() { "https" } else { "http" };
    say(&format!("serves {scheme}://{address}/"));
    if let Some(identity) = &identity {
        say(&format!("SHA-256 of the certificate: {}", identity.fingerprint));
    }
    if !has_users {
        say(crate::NOBODY);
    }
    server.run(|| ended.load(Ordering::Relaxed));
    Ok(())
}

/// The application, and whether anybody can log in.
fn app(args: &ServeArgs) -> Result<(Arc<App>, bool), String> {
    let firewall = Client::new(args.socket.as_deref()).map_err(|error| error.to_string())?;
    let users = Users::at(&args.state.join(USERS)).map_err(|error| error.to_string())?;
    let has_users = users.all().map_or(true, |all| !all.is_empty());
    let settings = Settings { is_tls: !args.insecure_http, names: our_names(&args.name) };
    Ok((App::new(firewall.with_patience(PATIENCE), users, settings).map(Arc::new)?, has_users))
}

/// The certificate of its own.
fn own(args: &ServeArgs) -> Result<Identity, String> {
    let mut names = our_names(&args.name);
    names.push("localhost".to_owned());
    names.push(args.listen.ip().to_string());
    Identity::own(&args.state, &names)
}

/// Asks the firewall at times what it dropped, for as long as the process runs. While it does not answer there are no samples.
fn sample(app: &Arc<App>) {
    let app = Arc::clone(app);
    std::thread::spawn(move || {
        loop {
            let _ = app.sample(jiff::Timestamp::now());
            std::thread::sleep(Duration::from_secs(samples::EVERY));
        }
    });
}
