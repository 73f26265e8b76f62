//! Makes and reads parts, the pieces that messages and artifacts consist of.
//!
//! JSON is text here, as in the messages, so numbers keep all their digits; `serde_json::Value` becomes such text by
//! `to_string()`.
//!
//! ```
//! use plgrpc_client::{Submission, parts};
//!
//! let question = Submission::parts([
//!     parts::text("What does it show?"),
//!     parts::file("chart.png", "image/png", *b"\x89PNG"),
//! ]);
//! # let _ = question;
//! ```

use prost::{DecodeError, Message, Name};

use crate::v1::{
    Failure, FileContent, Part, Payload, PayloadRef, ToolCall, TypedMessage, part::Content, payload::Value,
    tool_output::Outcome,
};

/// Plain text.
pub fn text(text: impl Into<String>) -> Part {
    of(Content::Text(text.into()))
}

/// Any JSON value, as text.
pub fn json(value: impl Into<String>) -> Part {
    of(Content::Data(json_payload(value)))
}

/// A protobuf message of any type that has a name.
pub fn message<M: Message + Name>(value: &M) -> Part {
    of(Content::Data(message_payload(value)))
}

/// Any JSON value, as text, as a payload.
pub fn json_payload(value: impl Into<String>) -> Payload {
    payload(Value::Json(value.into()), "")
}

/// A protobuf message of any type that has a name, as a payload.
pub fn message_payload<M: Message + Name>(value: &M) -> Payload {
    let typed = TypedMessage {
        type_name: M::full_name(),
        value: value.encode_to_vec(),
    };
    payload(Value::Message(typed), "")
}

fn payload(value: Value, media_type: impl Into<String>) -> Payload {
    Payload {
        value: Some(value),
        media_type: media_type.into(),
        ..Default::default()
    }
}

/// A file with its bytes. The name has no directories; an empty media type means `application/octet-stream`.
pub fn file(name: impl Into<String>, media_type: impl Into<String>, data: impl Into<Vec<u8>>) -> Part {
    of(Content::File(FileContent {
        name: name.into(),
        content: Some(payload(Value::Data(data.into()), media_type)),
    }))
}

/// A file that is somewhere else. Agents do not fetch it on their own.
pub fn link(uri: impl Into<String>, media_type: impl Into<String>) -> Part {
    let place = PayloadRef {
        uri: uri.into(),
        ..Default::default()
    };
    of(Content::File(FileContent {
        content: Some(payload(Value::Ref(place), media_type)),
        ..Default::default()
    }))
}

/// Asks for one run of a tool. `arguments` are a JSON object, as text.
pub fn tool_call(tool: impl Into<String>, arguments: impl Into<String>) -> Part {
    tool_call_with(tool, json_payload(arguments))
}

/// Asks for one run of a tool with arguments in any form, for instance a [`message_payload`].
pub fn tool_call_with(tool: impl Into<String>, arguments: Payload) -> Part {
    of(Content::ToolCall(ToolCall {
        tool_name: tool.into(),
        arguments: Some(arguments),
        ..Default::default()
    }))
}

fn of(content: Content) -> Part {
    Part {
        content: Some(content),
        ..Default::default()
    }
}

/// The text of a part that is one.
pub fn as_text(part: &Part) -> Option<&str> {
    match part.content.as_ref()? {
        Content::Text(text) => Some(text),
        _ => None,
    }
}

/// The value of a part that is data.
pub fn as_data(part: &Part) -> Option<&Payload> {
    match part.content.as_ref()? {
        Content::Data(value) => Some(value),
        _ => None,
    }
}

/// The JSON text of a part that is a JSON value.
pub fn as_json(part: &Part) -> Option<&str> {
    payload_json(as_data(part)?)
}

/// The JSON text of a payload that is a JSON value in no codec.
pub fn payload_json(payload: &Payload) -> Option<&str> {
    match payload.value.as_ref()? {
        Value::Json(text) if payload.encoding.is_empty() => Some(text),
        _ => None,
    }
}

/// The protobuf message of a payload; `None` where it has another form, a codec or another type.
pub fn payload_message<M: Message + Name + Default>(payload: &Payload) -> Option<Result<M, DecodeError>> {
    match payload.value.as_ref()? {
        Value::Message(typed) if payload.encoding.is_empty() && typed.type_name == M::full_name() => {
            Some(M::decode(typed.value.as_ref()))
        }
        _ => None,
    }
}

/// The JSON text of a payload; of any other its preview, which may be empty.
pub fn payload_text(payload: &Payload) -> &str {
    match payload.value.as_ref() {
        Some(Value::Json(text)) => text,
        _ => &payload.preview,
    }
}

/// The file of a part that is one, or a link to one.
pub fn as_file(part: &Part) -> Option<&FileContent> {
    match part.content.as_ref()? {
        Content::File(file) => Some(file),
        _ => None,
    }
}

/// The bytes of a part that is a file and has them.
pub fn as_bytes(part: &Part) -> Option<&[u8]> {
    match as_file(part)?.content.as_ref()?.value.as_ref()? {
        Value::Data(data) => Some(data),
        _ => None,
    }
}

/// The call of a part that asks for one.
pub fn as_tool_call(part: &Part) -> Option<&ToolCall> {
    match part.content.as_ref()? {
        Content::ToolCall(call) => Some(call),
        _ => None,
    }
}

/// What became of a tool call: its result, `None` where it has none, or its failure.
pub fn as_tool_result(part: &Part) -> Option<Result<Option<&Payload>, &Failure>> {
    match part.content.as_ref()? {
        Content::ToolOutput(output) => Some(match output.outcome.as_ref() {
            Some(Outcome::Result(value)) => Ok(Some(value)),
            Some(Outcome::Failure(failure)) => Err(failure),
            None => Ok(None),
        }),
        _ => None,
    }
}

/// The texts of the parts, put together.
pub fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(as_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::ToolOutput;

    #[test]
    fn each_kind_is_read_as_it_was_made_and_as_nothing_else() {
        let parts = [
            text("a"),
            json("[1]"),
            file("a.txt", "text/plain", "abc"),
            link("https://example.com/a", ""),
            tool_call("add", "{}"),
        ];
        assert_eq!(parts.each_ref().map(as_text), [Some("a"), None, None, None, None]);
        assert_eq!(parts.each_ref().map(as_json), [None, Some("[1]"), None, None, None]);
        assert_eq!(
            parts.each_ref().map(as_bytes),
            [None, None, Some(&b"abc"[..]), None, None]
        );
        let names = parts
            .each_ref()
            .map(|part| as_file(part).map(|file| file.name.as_str()));
        assert_eq!(names, [None, None, Some("a.txt"), Some(""), None]);
        let tools = parts
            .each_ref()
            .map(|part| as_tool_call(part).map(|call| call.tool_name.as_str()));
        assert_eq!(tools, [None, None, None, None, Some("add")]);
        assert_eq!(parts.each_ref().map(as_tool_result), [None; 5]);
        assert_eq!(text_of(&parts), "a");
    }

    #[test]
    fn a_protobuf_message_is_read_as_the_type_that_it_is() {
        let when = prost_types::Timestamp { seconds: 7, nanos: 0 };
        let part = message(&when);
        let sent = as_data(&part).unwrap();
        assert_eq!(payload_message::<prost_types::Timestamp>(sent), Some(Ok(when)));
        assert_eq!(payload_message::<prost_types::Duration>(sent), None);
        assert_eq!((as_json(&part), payload_text(sent)), (None, ""));
        let encoded = Payload {
            encoding: "aes".into(),
            preview: "noon".into(),
            ..sent.clone()
        };
        assert_eq!(payload_message::<prost_types::Timestamp>(&encoded), None);
        assert_eq!(payload_text(&encoded), "noon");
        let call = tool_call_with("wait", sent.clone());
        assert_eq!(as_tool_call(&call).unwrap().arguments.as_ref(), Some(sent));
    }

    #[test]
    fn a_tool_output_is_a_result_or_a_failure() {
        let output = |outcome| {
            of(Content::ToolOutput(ToolOutput {
                outcome,
                ..Default::default()
            }))
        };
        let (three, failure) = (json_payload("3"), Failure::default());
        assert_eq!(
            as_tool_result(&output(Some(Outcome::Result(three.clone())))),
            Some(Ok(Some(&three)))
        );
        assert_eq!(
            as_tool_result(&output(Some(Outcome::Failure(failure.clone())))),
            Some(Err(&failure))
        );
        assert_eq!(as_tool_result(&output(None)), Some(Ok(None)));
    }
}
