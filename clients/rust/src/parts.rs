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

use crate::v1::{FileContent, Part, ToolCall, ToolOutput, file_content::Source, part::Content};

/// Plain text.
pub fn text(text: impl Into<String>) -> Part {
    of(Content::Text(text.into()))
}

/// Any JSON value, as text.
pub fn json(value: impl Into<String>) -> Part {
    of(Content::DataJson(value.into()))
}

/// A file with its bytes. The name has no directories; an empty media type means `application/octet-stream`.
pub fn file(name: impl Into<String>, media_type: impl Into<String>, data: impl Into<Vec<u8>>) -> Part {
    of(Content::File(FileContent {
        name: name.into(),
        media_type: media_type.into(),
        source: Some(Source::Data(data.into())),
        ..Default::default()
    }))
}

/// A file that is somewhere else. Agents do not fetch it on their own.
pub fn link(uri: impl Into<String>, media_type: impl Into<String>) -> Part {
    of(Content::File(FileContent {
        media_type: media_type.into(),
        source: Some(Source::Uri(uri.into())),
        ..Default::default()
    }))
}

/// Asks for one run of a tool. `arguments` are a JSON object, as text.
pub fn tool_call(tool: impl Into<String>, arguments: impl Into<String>) -> Part {
    of(Content::ToolCall(ToolCall {
        tool_name: tool.into(),
        args_json: arguments.into(),
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

/// The JSON text of a part that is a JSON value.
pub fn as_json(part: &Part) -> Option<&str> {
    match part.content.as_ref()? {
        Content::DataJson(value) => Some(value),
        _ => None,
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
    match as_file(part)?.source.as_ref()? {
        Source::Data(data) => Some(data),
        Source::Uri(_) => None,
    }
}

/// The call of a part that asks for one.
pub fn as_tool_call(part: &Part) -> Option<&ToolCall> {
    match part.content.as_ref()? {
        Content::ToolCall(call) => Some(call),
        _ => None,
    }
}

/// What became of a tool call: its result, or its failure, as JSON text.
pub fn as_tool_result(part: &Part) -> Option<Result<&str, &str>> {
    match part.content.as_ref()? {
        Content::ToolOutput(ToolOutput { error_json, .. }) if !error_json.is_empty() => Some(Err(error_json)),
        Content::ToolOutput(ToolOutput { result_json, .. }) => Some(Ok(result_json)),
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
    fn a_tool_output_is_a_result_or_a_failure() {
        let output = |result: &str, error: &str| {
            of(Content::ToolOutput(ToolOutput {
                result_json: result.into(),
                error_json: error.into(),
                ..Default::default()
            }))
        };
        assert_eq!(as_tool_result(&output("3", "")), Some(Ok("3")));
        assert_eq!(as_tool_result(&output("", "\"no\"")), Some(Err("\"no\"")));
    }
}
