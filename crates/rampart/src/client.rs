//! Asks the daemon: one request over its socket, the answer as a typed value.

use crate::api::{Down, Operation, Refusal};
use crate::failure::Failure;
use crate::http::{ReadError, read_response, write_request};
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The daemon of a socket.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    /// That of this network namespace, or of a socket that the user names.
    ///
    /// # Errors
    /// When the namespace cannot be told.
    pub(crate) fn new(socket: Option<&Path>) -> Result<Self, Failure> {
        let place = crate::daemon::place::Place::here(socket);
        let place = place.map_err(|e| Failure::Machine(format!("cannot tell the network namespace: {e}")))?;
        Ok(Self { socket: place.socket })
    }

    /// Asks with filters, as keys and values.
    ///
    /// # Errors
    /// When nobody answers, or what was asked for is refused.
    pub(crate) fn ask<A: DeserializeOwned>(
        &self,
        operation: Operation,
        query: &[(String, String)],
    ) -> Result<A, Failure> {
        let route = operation.route();
        let mut target = route.path.to_owned();
        if !query.is_empty() {
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            target = format!("{target}?{query}");
        }
        self.call(route.method, &target, &[]).map(|(answer, _)| answer)
    }

    /// Takes the firewall down, and waits until it has left nothing behind.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn down(&self) -> Result<Down, Failure> {
        let route = Operation::Down.route();
        let (down, mut stream) = self.call(route.method, route.path, &[])?;
        // The daemon closes the connection last of all; however that ends, it has ended.
        let _ = stream.read(&mut [0]);
        Ok(down)
    }

    /// Sends a body.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn send<A: DeserializeOwned>(
        &self,
        operation: Operation,
        body: &impl serde::Serialize,
    ) -> Result<A, Failure> {
        let route = operation.route();
        let body = serde_json::to_vec(body).map_err(|e| Failure::Wrong(format!("cannot write JSON: {e}")))?;
        self.call(route.method, route.path, &body).map(|(answer, _)| answer)
    }

    fn call<A: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<(A, UnixStream), Failure> {
        let mut stream = UnixStream::connect(&self.socket).map_err(|error| self.not_there(&error))?;
        // A server that refuses a body answers before it has read all of it: then the answer tells more than the error.
        let written = write_request(&mut stream, method, target, body);
        let response = read_response(&mut stream).map_err(|error| self.no_answer(error, written))?;
        if response.status == 200 {
            let answer = serde_json::from_slice(&response.body);
            return answer.map(|answer| (answer, stream)).map_err(|error| self.strange(&error.to_string()));
        }
        let refusal: Refusal =
            serde_json::from_slice(&response.body).map_err(|error| self.strange(&error.to_string()))?;
        Err(Failure::Refused { machine: response.status >= 500, refusal: Box::new(refusal) })
    }

    /// Why nobody can be asked.
    fn not_there(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        Failure::Machine(match error.kind() {
            ErrorKind::NotFound => {
                format!("no firewall runs here (there is no {socket}): `rampart up POLICY` starts one")
            }
            ErrorKind::ConnectionRefused => format!(
                "nobody answers on {socket}: the firewall was killed, and its programs go on without it; `rampart up POLICY` \
                 takes over, and `rampart down` then ends it"
            ),
            ErrorKind::PermissionDenied => format!(
                "you may not use {socket}: it is for root and the group `{}`",
                crate::daemon::place::GROUP
            ),
            _ => format!("cannot connect to {socket}: {error}"),
        })
    }

    fn no_answer(&self, error: ReadError, written: io::Result<()>) -> Failure {
        let why = match (written, error) {
            (Err(error), _) | (_, ReadError::Io(error)) => error.to_string(),
            (_, ReadError::Wrong(_, why)) => why,
        };
        Failure::Machine(format!(
            "the firewall on {} gave no answer: {why}; its own output tells more",
            self.socket.display()
        ))
    }

    fn strange(&self, why: &str) -> Failure {
        Failure::Machine(format!(
            "the answer on {} is not what this version expects: {why}; is it a daemon of another version?",
            self.socket.display()
        ))
    }
}
