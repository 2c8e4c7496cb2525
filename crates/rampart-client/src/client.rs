//! Asks a firewall: one request over its socket, the answer as a typed value.

use crate::api::{Down, Operation, Refusal};
use crate::http::{ReadError, read_response, write_request_for};
use crate::socket::{GROUP, Namespace, READERS, reading};
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The firewall behind a socket.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    acting_for: Option<String>,
    patience: Option<Duration>,
}

/// Why there is no answer to a request. Each text is complete, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no such socket, so there is no daemon. A firewall that one has left goes on all the same, which only root can see.
    #[error("no firewall runs here (there is no {}): `rampart up POLICY` starts one", .0.display())]
    Absent(PathBuf),
    /// Nobody answers on the socket, or what answers is no firewall of this version.
    #[error("{0}")]
    Unreachable(String),
    /// The firewall refused the request.
    #[error("{}", refusal.error)]
    Refused {
        /// Status of HTTP: below 500 the request is wrong, from 500 on the machine or its kernel failed.
        status: u16,
        /// What the firewall said.
        refusal: Box<Refusal>,
    },
    /// The request cannot be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Client {
    /// The firewall of this network namespace, or the one behind a socket that the user names.
    ///
    /// # Errors
    /// When the network namespace cannot be found out.
    pub fn new(socket: Option<&Path>) -> Result<Self, ClientError> {
        let unknown =
            |error| ClientError::Unreachable(format!("cannot find out the network namespace: {error}"));
        let own = || Namespace::current().map(|namespace| namespace.socket()).map_err(unknown);
        Ok(Self {
            socket: socket.map_or_else(own, |path| Ok(path.to_owned()))?,
            acting_for: None,
            patience: None,
        })
    }

    /// The same firewall, asked for somebody. The daemon records the name beside the process that claims it.
    #[must_use]
    pub fn acting_for(&self, name: &str) -> Self {
        Self { acting_for: Some(name.to_owned()), ..self.clone() }
    }

    /// The same firewall, for somebody who waits no longer than this for the next part of an answer.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self.clone() }
    }

    /// Requests an operation, with a query of keys and values.
    ///
    /// # Errors
    /// When nobody answers, or the request is refused.
    pub fn ask<A: DeserializeOwned>(
        &self,
        operation: Operation,
        query: &[(String, String)],
    ) -> Result<A, ClientError> {
        self.send_bytes(operation, query, &[])
    }

    /// Requests an operation, with a query and a body as it is.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn send_bytes<A: DeserializeOwned>(
        &self,
        operation: Operation,
        query: &[(String, String)],
        body: &[u8],
    ) -> Result<A, ClientError> {
        let (method, target) = request(operation, query);
        self.call(method, &target, body).map(|(answer, _)| answer)
    }

    /// Requests an operation whose answer is no JSON.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn fetch(&self, operation: Operation) -> Result<Vec<u8>, ClientError> {
        let (method, target) = request(operation, &[]);
        self.call_raw(method, &target, &[]).map(|(answer, _)| answer)
    }

    /// Requests an operation, with a body.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn send<A: DeserializeOwned>(
        &self,
        operation: Operation,
        body: &impl serde::Serialize,
    ) -> Result<A, ClientError> {
        let route = operation.route();
        self.call(route.method, route.path, &serde_json::to_vec(body)?).map(|(answer, _)| answer)
    }

    /// Takes the firewall down, and waits until it has left nothing behind.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn down(&self) -> Result<Down, ClientError> {
        let route = Operation::Down.route();
        let (down, mut stream) = self.call(route.method, route.path, &[])?;
        // The daemon closes the connection last of all; however that ends, it has ended.
        let _ = stream.read_exact(&mut [0]);
        Ok(down)
    }

    fn call<A: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<(A, UnixStream), ClientError> {
        let (answer, stream) = self.call_raw(method, target, body)?;
        serde_json::from_slice(&answer).map(|answer| (answer, stream)).map_err(|error| self.strange(&error))
    }

    fn call_raw(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<(Vec<u8>, UnixStream), ClientError> {
        let mut stream = self.connect()?;
        let bounded =
            stream.set_read_timeout(self.patience).and_then(|()| stream.set_write_timeout(self.patience));
        bounded.map_err(|error| self.not_there(&error))?;
        // A server that refuses a body answers before it has read all of it: then the answer says more than the error.
        let written = write_request_for(&mut stream, method, target, self.acting_for.as_deref(), body);
        let response = read_response(&mut stream).map_err(|error| self.no_answer(error, written))?;
        if response.status == 200 {
            return Ok((response.body, stream));
        }
        let refusal: Refusal =
            serde_json::from_slice(&response.body).map_err(|error| self.strange(&error))?;
        Err(ClientError::Refused { status: response.status, refusal: Box::new(refusal) })
    }

    /// Connects to the socket that the user may use.
    fn connect(&self) -> Result<UnixStream, ClientError> {
        UnixStream::connect(&self.socket).or_else(|error| {
            let may_read = || UnixStream::connect(reading(&self.socket)).ok();
            let stream = (error.kind() == ErrorKind::PermissionDenied).then(may_read).flatten();
            stream.ok_or_else(|| self.not_there(&error))
        })
    }

    fn not_there(&self, error: &io::Error) -> ClientError {
        let socket = self.socket.display();
        ClientError::Unreachable(match error.kind() {
            ErrorKind::NotFound => return ClientError::Absent(self.socket.clone()),
            ErrorKind::ConnectionRefused => format!(
                "nobody answers on {socket}: the firewall was killed, and its programs go on without it; `rampart up POLICY` \
                 takes over, and `rampart down` then ends it"
            ),
            ErrorKind::PermissionDenied => {
                format!(
                    "you may not use {socket}: it is for root and the group `{GROUP}`; the group `{READERS}` may ask, and change nothing"
                )
            }
            _ => format!("cannot connect to {socket}: {error}"),
        })
    }

    fn no_answer(&self, error: ReadError, written: io::Result<()>) -> ClientError {
        let why = match (written, error) {
            (Err(error), _) | (_, ReadError::Io(error)) => error.to_string(),
            (_, ReadError::Wrong(_, why)) => why,
        };
        let socket = self.socket.display();
        ClientError::Unreachable(format!(
            "the firewall on {socket} gave no answer: {why}; its own output tells more"
        ))
    }

    fn strange(&self, why: &serde_json::Error) -> ClientError {
        let socket = self.socket.display();
        ClientError::Unreachable(format!(
            "the answer on {socket} is not what this version expects: {why}; is it a daemon of another version?"
        ))
    }
}

/// The method and the target of a request.
fn request(operation: Operation, query: &[(String, String)]) -> (&'static str, String) {
    let route = operation.route();
    if query.is_empty() {
        return (route.method, route.path.to_owned());
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    (route.method, format!("{}?{query}", route.path))
}
