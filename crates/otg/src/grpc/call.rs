//! The calls that there are, each of them a request of the API, and the frames that their messages come in. Knows no sockets.

use super::model;
use crate::api;
use crate::bench::Bench;
use crate::refusal::Refusal;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, Value};

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Bytes of a part at most; clients take messages of 4 MiB.
const PART: usize = 1 << 20;
/// A long message in parts goes by the name of its call with this before it.
const IN_PARTS: &str = "stream";

/// A call of the API's service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    request: &'static Request,
    in_parts: bool,
}

/// A request of the API, under the name of its call.
#[derive(Debug)]
struct Request {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    parts: Parts,
    /// The messages that it comes in and is answered by. What is refused whatever it says has none.
    comes: Option<&'static str>,
    answer: Option<&'static str>,
}

/// What may come or go in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    Neither,
    Request,
    Answer,
}

static REQUESTS: [Request; 11] = {
    use Parts::{Answer, Neither};
    type Messages = [Option<&'static str>; 2];
    const fn row(
        name: &'static str,
        [method, path]: [&'static str; 2],
        parts: Parts,
        [comes, answer]: Messages,
    ) -> Request {
        Request { name, method, path, parts, comes, answer }
    }
    const SET_CONFIG: Messages = [Some("SetConfigRequest"), Some("SetConfigResponse")];
    const SET_STATE: Messages = [Some("SetControlStateRequest"), Some("SetControlStateResponse")];
    const METRICS: Messages = [Some("GetMetricsRequest"), Some("GetMetricsResponse")];
    [
        row("SetConfig", ["POST", "/config"], Parts::Request, SET_CONFIG),
        row("GetConfig", ["GET", "/config"], Answer, [None, Some("GetConfigResponse")]),
        row("UpdateConfig", ["PATCH", "/config"], Neither, [None; 2]),
        row("AppendConfig", ["PATCH", "/config/append"], Neither, [None; 2]),
        row("DeleteConfig", ["PATCH", "/config/delete"], Neither, [None; 2]),
        row("SetControlState", ["POST", "/control/state"], Parts::Request, SET_STATE),
        row("SetControlAction", ["POST", "/control/action"], Parts::Request, [None; 2]),
        row("GetMetrics", ["POST", "/monitor/metrics"], Answer, METRICS),
        row("GetStates", ["POST", "/monitor/states"], Answer, [None; 2]),
        row("GetCapture", ["POST", "/monitor/capture"], Answer, [None; 2]),
        row("GetVersion", ["GET", "/capabilities/version"], Neither, [None, Some("GetVersionResponse")]),
    ]
};

impl Call {
    /// The call at a path.
    pub(super) fn find(path: &str) -> Result<Self, Refusal> {
        let name = path.strip_prefix("/otg.Openapi/").unwrap_or_default();
        let (in_parts, name) = name.strip_prefix(IN_PARTS).map_or((false, name), |rest| (true, rest));
        let found = REQUESTS.iter().find(|request| request.name == name);
        let found = found.filter(|request| !in_parts || request.parts != Parts::Neither);
        let none = || Refusal { status: 404, what: format!("there is no call {path:.100}") };
        Ok(Self { request: found.ok_or_else(none)?, in_parts })
    }

    /// Does what a call asks for: frames in, frames out.
    pub(super) fn answer(self, frames: &[u8], bench: &mut Bench) -> Result<Vec<u8>, Refusal> {
        let Request { method, path, comes, answer, .. } = *self.request;
        let body = match comes {
            Some(message) => self.body(message, &messages(frames)?)?,
            None => Vec::new(),
        };
        let done = api::answer(bench, method, path, &body)?;
        let message =
            answer.ok_or_else(|| Refusal::failed(format!("{} has no answer", self.request.name)))?;
        let inner = model::of_json(model::within(message), &done)?;
        let mut said = Vec::new();
        if self.in_parts && self.request.parts == Parts::Answer {
            inner.encode_to_vec().chunks(PART).for_each(|part| frame(&mut said, &data(part)));
        } else {
            frame(&mut said, &model::wrap(message, inner));
        }
        Ok(said)
    }

    /// The JSON of what the messages of a call ask for.
    fn body(self, message: &str, messages: &[&[u8]]) -> Result<Vec<u8>, Refusal> {
        let inner = match messages {
            parts if self.in_parts && self.request.parts == Parts::Request => {
                parts.iter().map(|part| datum(part)).collect::<Result<Vec<_>, _>>()?.concat()
            }
            [one] => model::unwrap(message, one)?,
            _ => return Err(Refusal::wrong(format!("{} messages: this call has one", messages.len()))),
        };
        model::to_json(model::within(message), &inner)
    }
}

/// The messages that frames hold (gRPC over HTTP/2, "Length-Prefixed-Message").
fn messages(mut frames: &[u8]) -> Result<Vec<&[u8]>, Refusal> {
    let mut found = Vec::new();
    while let Some(([compressed, length @ ..], rest)) = frames.split_first_chunk::<PREFIX>() {
        if *compressed != 0 {
            return Err(Refusal::wrong("compressed messages are not supported"));
        }
        let length = u32::from_be_bytes(*length) as usize;
        let Some((message, rest)) = rest.split_at_checked(length) else { break };
        found.push(message);
        frames = rest;
    }
    if frames.is_empty() { Ok(found) } else { Err(Refusal::wrong("the call ends within a message")) }
}

fn frame(frames: &mut Vec<u8>, message: &[u8]) {
    frames.push(0);
    // Answers are as long as configurations, which are much shorter than 4 GiB.
    frames.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frames.extend_from_slice(message);
}

/// A part of a long message.
fn data(part: &[u8]) -> Vec<u8> {
    let mut made = DynamicMessage::new(model::message("Data"));
    made.set_field_by_name("chunk_size", Value::U64(PART as u64));
    made.set_field_by_name("datum", Value::Bytes(part.to_vec().into()));
    made.encode_to_vec()
}

fn datum(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let part = model::decode(model::message("Data"), bytes)?;
    let datum = part.get_field_by_name("datum");
    Ok(datum.and_then(|datum| datum.as_bytes().map(|bytes| bytes.to_vec())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_a_request_of_the_api_and_its_messages() {
        for request in &REQUESTS {
            assert!(api::PATHS.contains(&(request.method, request.path)), "{request:?}");
            for message in request.comes.iter().chain(&request.answer) {
                assert!(!model::within(message).name().is_empty());
            }
        }
        assert_eq!(REQUESTS.len(), api::PATHS.len());
        for (path, is_there) in [
            ("/otg.Openapi/SetConfig", true),
            ("/otg.Openapi/streamSetConfig", true),
            ("/otg.Openapi/streamGetVersion", false),
            ("/otg.Openapi/", false),
            ("/otg.Openapi/stream", false),
            ("/other.Openapi/SetConfig", false),
        ] {
            assert_eq!(Call::find(path).is_ok(), is_there, "{path}");
        }
    }

    #[test]
    fn messages_come_whole_and_uncompressed() {
        for (frames, found) in [
            (&b""[..], Ok(vec![])),
            (b"\0\0\0\0\0", Ok(vec![&b""[..]])),
            (b"\0\0\0\0\x02ab\0\0\0\0\x01c", Ok(vec![&b"ab"[..], b"c"])),
            (b"\x01\0\0\0\x02ab", Err("compressed messages")),
            (b"\0\0\0\0\x03ab", Err("ends within a message")),
            (b"\0\xff\xff\xff\xffab", Err("ends within a message")),
            (b"\0\0\0", Err("ends within a message")),
        ] {
            match (messages(frames), found) {
                (Ok(seen), Ok(wanted)) => assert_eq!(seen, wanted),
                (Err(refusal), Err(why)) => assert!(refusal.what.contains(why), "{refusal:?}"),
                (seen, wanted) => panic!("{frames:?}: {seen:?}, {wanted:?}"),
            }
        }
    }

    #[test]
    fn parts_are_one_message() {
        let long = vec![7; 3 * PART / 2];
        let mut frames = Vec::new();
        long.chunks(PART).for_each(|part| frame(&mut frames, &data(part)));
        let parts = messages(&frames).unwrap();
        let back: Vec<Vec<u8>> = parts.iter().map(|part| datum(part).unwrap()).collect();
        assert_eq!((back.len(), back.concat()), (2, long));
    }
}
