//! Why a request is not done, in the shape that the API has for it.

use serde_json::{Value, json};

/// A request that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Of HTTP: 4xx, the client can put it right; 500, it cannot.
    pub(crate) status: u16,
    /// What is wrong, with its place in the request.
    pub(crate) what: String,
}

impl Refusal {
    /// The request is wrong, or asks for what the bench does not have.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self { status: 400, what: what.into() }
    }

    /// The bench or its machine failed.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self { status: 500, what: what.into() }
    }

    /// The API's `Error`.
    pub(crate) fn body(&self) -> Value {
        let kind = if self.status == 500 { "internal" } else { "validation" };
        json!({ "code": self.status, "kind": kind, "errors": [self.what] })
    }
}
