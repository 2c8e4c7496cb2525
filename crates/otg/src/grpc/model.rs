//! The API's messages: from protobuf into the JSON that requests are read by, and back. Pure.

use crate::refusal::Refusal;
use prost_reflect::prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _, SerializeOptions, Value,
};
use std::sync::LazyLock;

/// The message in the place of all those whose content nobody reads.
const UNREAD: &str = "Unread";

/// The model, which was checked when it was compiled.
static MODEL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/model.bin"));
    DescriptorPool::decode(&bytes[..]).expect("model.proto was compiled by the build")
});

/// A message of the model.
pub(super) fn message(name: &str) -> MessageDescriptor {
    let found = MODEL.get_message_by_name(&format!("otg.{name}"));
    found.unwrap_or_else(|| panic!("model.proto has no message {name}"))
}

/// The message in the only field of another: the configuration in the request that sets one.
pub(super) fn within(name: &str) -> MessageDescriptor {
    let field = message(name).get_field(1).and_then(|field| field.kind().as_message().cloned());
    field.unwrap_or_else(|| panic!("{name} holds no message"))
}

/// What a message's only field holds; nothing if it is not there.
pub(super) fn unwrap(name: &str, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let outer = decode(message(name), bytes)?;
    check_known(&outer, "")?;
    let Some(Value::Message(inner)) = outer.fields().next().map(|(_, value)| value) else {
        return Ok(Vec::new());
    };
    Ok(inner.encode_to_vec())
}

/// A message with this in its only field.
pub(super) fn wrap(name: &str, inner: DynamicMessage) -> Vec<u8> {
    let mut outer = DynamicMessage::new(message(name));
    outer.set_field_by_number(1, Value::Message(inner));
    outer.encode_to_vec()
}

/// Protobuf as the API's JSON.
pub(super) fn to_json(message: MessageDescriptor, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let found = decode(message, bytes)?;
    check_known(&found, "")?;
    // As text, because a number of 32 bits has fewer digits in it than it would have as one of 64.
    let mut text = Vec::new();
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    found
        .serialize_with_options(&mut serde_json::Serializer::new(&mut text), &options)
        .map_err(|error| Refusal::wrong(format!("the request has no form in JSON: {error}")))?;
    Ok(text)
}

/// The API's JSON as protobuf.
pub(super) fn of_json(
    message: MessageDescriptor,
    json: &serde_json::Value,
) -> Result<DynamicMessage, Refusal> {
    DynamicMessage::deserialize(message, json).map_err(|error| {
        Refusal::failed(format!("the answer has no form in protobuf, so ask for it over HTTP: {error}"))
    })
}

/// A message of bytes.
pub(super) fn decode(message: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, Refusal> {
    let name = message.name().to_owned();
    DynamicMessage::decode(message, bytes)
        .map_err(|error| Refusal::wrong(format!("the request is no {name}: {error}")))
}

/// Refuses fields that the model does not have: nothing is ignored.
fn check_known(message: &DynamicMessage, place: &str) -> Result<(), Refusal> {
    if message.descriptor().name() == UNREAD {
        return Ok(());
    }
    if let Some(field) = message.unknown_fields().next() {
        let place = if place.is_empty() { "the request" } else { place };
        return Err(Refusal::wrong(format!(
            "{place}: {} has no field {} in the API's model {}",
            message.descriptor().name(),
            field.number(),
            crate::api::MODEL
        )));
    }
    let dot = if place.is_empty() { "" } else { "." };
    for (field, value) in message.fields() {
        let place = format!("{place}{dot}{}", field.name());
        match value {
            Value::Message(inner) => check_known(inner, &place)?,
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    let Value::Message(item) = item else { break };
                    check_known(item, &format!("{place}[{at}]"))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn there(name: &str, json: &serde_json::Value) -> Vec<u8> {
        of_json(message(name), json).unwrap().encode_to_vec()
    }

    fn and_back(name: &str, bytes: &[u8]) -> Result<serde_json::Value, String> {
        let text = to_json(message(name), bytes).map_err(|refusal| refusal.what)?;
        Ok(serde_json::from_slice(&text).unwrap())
    }

    #[test]
    fn json_comes_back_as_it_went() {
        let rows = [
            ("Config", json!({})),
            ("Config", json!({ "ports": [{ "name": "", "location": "left" }], "devices": [{}] })),
            ("FlowRate", json!({ "choice": "percentage", "percentage": 0.1 })),
            ("FlowRate", json!({ "choice": "pps", "pps": u64::MAX })),
            (
                "FlowHeader",
                json!({ "choice": "udp", "udp": { "src_port": { "increment": { "start": 1, "count": 9 } } } }),
            ),
            (
                "Layer1",
                json!({ "name": "l", "port_names": ["a", "b"], "speed": "speed_10_gbps", "promiscuous": false }),
            ),
            ("FlowMetric", json!({ "name": "f", "transmit": "stopped", "frames_tx": 0, "loss": 0.0 })),
        ];
        for (name, json) in rows {
            assert_eq!(and_back(name, &there(name, &json)), Ok(json));
        }
    }

    #[test]
    fn what_the_model_does_not_have_is_refused_with_its_place() {
        let new = |inside: &str, bytes: &[u8]| {
            let mut made = DynamicMessage::new(message(inside));
            made.merge(bytes).unwrap();
            made
        };
        // Field 15, which is three bytes long.
        let unknown = [0x7a, 0x01, 0x00];
        let config = |field: &str, inner: DynamicMessage| {
            let mut made = DynamicMessage::new(message("Config"));
            made.set_field_by_name(field, Value::List(vec![Value::Message(inner)]));
            made.encode_to_vec()
        };
        for (bytes, found) in [
            (unknown.to_vec(), "the request: Config has no field 15 in the API's model 1.62.0"),
            (config("ports", new("Port", &unknown)), "ports[0]: Port has no field 15"),
            (vec![0x0a, 0x05], "the request is no Config: "),
            (vec![0xff; 20], "the request is no Config: "),
        ] {
            let refused = and_back("Config", &bytes).unwrap_err();
            assert!(refused.contains(found), "{refused}");
        }
        // The reader of the JSON refuses it by its name.
        assert_eq!(and_back("Config", &config("lags", new("Unread", &unknown))), Ok(json!({ "lags": [{}] })));
        let no_answer = of_json(message("FlowMetric"), &json!({ "transmit": "nosuch" })).unwrap_err();
        assert!(no_answer.status == 500 && no_answer.what.contains("nosuch"), "{no_answer:?}");
    }
}
