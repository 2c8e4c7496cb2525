//! The Open Traffic Generator API over the bench's generator: a client such as snappi writes down ports and flows as JSON, starts them
//! and reads metrics. What the generator cannot send is refused with the place in the JSON where it stands; nothing is ignored.
//!
//! `config` reads a configuration and knows no machine. `bench` has the interfaces and the generator, `api` answers requests, and
//! `server` carries them over HTTP and HTTPS; `grpc` has the same requests as calls of gRPC.

mod api;
mod bench;
mod config;
mod grpc;
mod http;
mod metrics;
mod node;
mod refusal;
mod server;
mod tls;

pub use bench::{Between, Settings};
pub use server::{LISTEN, OtgError, Server};
