//! What goes to an agent, and what comes back, in fewer words than the messages need.

use crate::v1::{Message, Part, Role, Task, ToolCall, ToolOutput, infer_output, part::Content};

/// What a caller sends: a task, and how the request is to be understood. Texts and tasks become one by themselves.
///
/// ```
/// # use protolink_client::Submission;
/// let wish = Submission::json(r#"{"to": "Santorini"}"#).request_id("order-7");
/// ```
#[derive(Clone, Debug)]
pub struct Submission {
    pub(crate) task: Task,
    pub(crate) request_id: String,
    pub(crate) task_id: String,
}

impl Submission {
    /// One message that says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::content(Content::Text(text.into()))
    }

    /// One message that is any JSON value, as text.
    pub fn json(value: impl Into<String>) -> Self {
        Self::content(Content::DataJson(value.into()))
    }

    /// Asks for one run of a tool. `arguments` are a JSON object, as text.
    pub fn tool_call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let call = ToolCall {
            tool_name: tool.into(),
            args_json: arguments.into(),
            ..Default::default()
        };
        Self::content(Content::ToolCall(call))
    }

    fn content(content: Content) -> Self {
        let part = Part {
            content: Some(content),
            ..Default::default()
        };
        let message = Message {
            role: Role::User.into(),
            parts: vec![part],
            ..Default::default()
        };
        Task {
            messages: vec![message],
            ..Default::default()
        }
        .into()
    }

    /// Chooses the id of a new task: easy to find again, whatever happens to the answer. 1 to 128 bytes.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.task.id = id.into();
        self
    }

    /// Names the request, for a repetition from another process: the same id from the same caller is the same request
    /// for at least 24 hours, and is answered with the task of the first one. At most 128 bytes. Without it, each
    /// request gets an id of its own.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = id.into();
        self
    }

    /// Sends the messages to a task that exists already, for instance one that waits for input. Where the agent does
    /// not know it, the request fails with [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND) and begins no other one.
    pub fn continuing(mut self, task_id: impl Into<String>) -> Self {
        self.task_id = task_id.into();
        self
    }
}

impl From<Task> for Submission {
    fn from(task: Task) -> Self {
        Self {
            task,
            request_id: uuid::Uuid::new_v4().to_string(),
            task_id: String::new(),
        }
    }
}

impl From<&str> for Submission {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Submission {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// What the task is for: the newest output among the agent's messages and the artifacts of kind `result`. Texts as they
/// are, data and results of tools as JSON text; `None` where there is no output.
pub fn output(task: &Task) -> Option<String> {
    let results = task
        .artifacts
        .iter()
        .filter(|artifact| matches!(artifact.kind.as_str(), "" | "result"));
    let spoken = task
        .messages
        .iter()
        .filter(|message| matches!(message.role(), Role::Agent | Role::Assistant));
    let times_and_parts = results
        .map(|artifact| (artifact.create_time, &artifact.parts))
        .chain(spoken.map(|message| (message.create_time, &message.parts)));
    times_and_parts
        .filter_map(|(time, parts)| {
            let last = parts.iter().rev().find_map(output_of)?;
            Some((time.map_or((0, 0), |time| (time.seconds, time.nanos)), last))
        })
        .max_by_key(|(time, _)| *time)
        .map(|(_, last)| last.to_owned())
}

fn output_of(part: &Part) -> Option<&str> {
    match part.content.as_ref()? {
        Content::Text(text) | Content::DataJson(text) => Some(text),
        Content::ToolOutput(ToolOutput {
            result_json,
            error_json,
            ..
        }) if error_json.is_empty() => Some(result_json),
        Content::InferOutput(inferred) => match inferred.content.as_ref()? {
            infer_output::Content::Text(text) | infer_output::Content::ValueJson(text) => Some(text),
        },
        _ => None,
    }
}

/// The texts of the parts, put together.
pub fn text_of(parts: &[Part]) -> String {
    let text = |part: &Part| match &part.content {
        Some(Content::Text(text)) => Some(text.clone()),
        _ => None,
    };
    parts.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Artifact;

    fn message(role: Role, content: Content) -> Message {
        let part = Part {
            content: Some(content),
            ..Default::default()
        };
        Message {
            role: role.into(),
            parts: vec![part],
            ..Default::default()
        }
    }

    #[test]
    fn each_submission_is_a_request_of_its_own() {
        let (first, second) = (Submission::text("a"), Submission::text("a"));
        assert_eq!(first.task, second.task);
        assert_ne!(first.request_id, second.request_id);
        assert_eq!(first.request_id("mine").request_id, "mine");
    }

    #[test]
    fn the_output_is_the_newest_thing_that_the_agent_produced() {
        let mut task = Submission::text("question").task;
        assert_eq!(output(&task), None);
        let data = Part {
            content: Some(Content::DataJson("1".into())),
            ..Default::default()
        };
        task.artifacts = vec![
            Artifact {
                parts: vec![data.clone()],
                ..Default::default()
            },
            Artifact {
                kind: "preview".into(),
                parts: vec![data],
                ..Default::default()
            },
        ];
        assert_eq!(output(&task).as_deref(), Some("1"));
        task.messages.push(message(Role::Agent, Content::Text("said".into())));
        assert_eq!(output(&task).as_deref(), Some("said"));
        task.artifacts[0].create_time = Some(std::time::SystemTime::now().into());
        assert_eq!(output(&task).as_deref(), Some("1"));
    }

    #[test]
    fn a_tool_that_failed_has_no_output() {
        let failed = ToolOutput {
            error_json: "{}".into(),
            ..Default::default()
        };
        let task = Task {
            messages: vec![message(Role::Agent, Content::ToolOutput(failed))],
            ..Default::default()
        };
        assert_eq!(output(&task), None);
    }
}
