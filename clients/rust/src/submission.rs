//! Builders of inputs, and the output of a task.

use uuid::Uuid;

use crate::parts;
use crate::parts::payload_text;
use crate::v1::{
    Message, MessageRole, Part, Task, TaskInput, TaskTarget, TaskView, infer_output, part::Content,
    tool_output::Outcome,
};

/// What a caller sends: an input, and how the request is to be understood. Texts and inputs become one by themselves.
///
/// It is one request: a clone that is sent again is the same request, and no second run.
///
/// ```
/// # use plgrpc_client::Submission;
/// let wish = Submission::json(r#"{"to": "Santorini"}"#).request_id("order-7");
/// ```
#[derive(Clone, Debug)]
pub struct Submission {
    pub(crate) input: TaskInput,
    pub(crate) request_id: String,
    pub(crate) view: TaskView,
}

impl Submission {
    /// One message that says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::parts([parts::text(text)])
    }

    /// One message that is any JSON value, as text.
    pub fn json(value: impl Into<String>) -> Self {
        Self::parts([parts::json(value)])
    }

    /// Asks for one run of a tool. `arguments` are a JSON object, as text.
    pub fn tool_call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::parts([parts::tool_call(tool, arguments)])
    }

    /// One message of several parts: see [`parts`](crate::parts).
    pub fn parts(parts: impl IntoIterator<Item = Part>) -> Self {
        let message = Message {
            role: MessageRole::User.into(),
            parts: parts.into_iter().collect(),
            ..Default::default()
        };
        TaskInput {
            messages: vec![message],
            ..Default::default()
        }
        .into()
    }

    /// Chooses the id of a new task, instead of a random one. 1 to 128 bytes. Where the id is taken, the request fails
    /// with [`TASK_ALREADY_EXISTS`](crate::reason::TASK_ALREADY_EXISTS).
    pub fn id(self, id: impl Into<String>) -> Self {
        self.aimed(id, TaskTarget::Create)
    }

    /// Sets the request id, to repeat the request from another process. For at least 24 hours, a request of the same
    /// caller with the same id returns the task of the first one, even if its other fields differ. At most 128 bytes.
    /// Without it, each request gets an id of its own.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = id.into();
        self
    }

    /// Sends the messages to a task that exists already, for instance one that waits for input. Where the agent does
    /// not know it, the request fails with [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND) and begins no other one.
    pub fn continuing(self, task_id: impl Into<String>) -> Self {
        self.aimed(task_id, TaskTarget::Continue)
    }

    /// Sends the messages to the task of that id if it exists, and begins it otherwise.
    pub fn creating_or_continuing(self, task_id: impl Into<String>) -> Self {
        self.aimed(task_id, TaskTarget::CreateOrContinue)
    }

    fn aimed(mut self, task_id: impl Into<String>, target: TaskTarget) -> Self {
        self.input.task_id = task_id.into();
        self.input.target = target.into();
        self
    }

    /// Continues a task only where its last event has this sequence: that of the last event that the caller has seen.
    /// Otherwise the request fails with [`SEQUENCE_CONFLICT`](crate::reason::SEQUENCE_CONFLICT), and nothing is added.
    pub fn expected_sequence(mut self, sequence: i64) -> Self {
        self.input.expected_sequence = sequence;
        self
    }

    /// How much of the task is returned. By default what this turn has added.
    pub fn view(mut self, view: TaskView) -> Self {
        self.view = view;
        self
    }

    /// The task that it begins or continues. It is known before anything is sent, so that a task whose answer did not
    /// come in time can be looked up, and canceled.
    pub fn task_id(&self) -> &str {
        &self.input.task_id
    }
}

/// An input with an id continues that task, unless its target says otherwise; one without begins a task, whose id is
/// made here.
impl From<TaskInput> for Submission {
    fn from(mut input: TaskInput) -> Self {
        if input.task_id.is_empty() && input.target() != TaskTarget::Continue {
            input.task_id = Uuid::now_v7().to_string();
            if input.target() == TaskTarget::Unspecified {
                input.target = TaskTarget::Create.into();
            }
        }
        Self {
            input,
            request_id: Uuid::new_v4().to_string(),
            view: TaskView::Unspecified,
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

/// What the task is for: the last part that is output in the message or artifact that the agent names as the answer.
/// Texts as they are, data and results of tools as JSON text; `None` where there is no output.
pub fn output(task: &Task) -> Option<String> {
    let id = &task.output_id;
    let said = task.messages.iter().map(|message| (&message.id, &message.parts));
    let made = task.artifacts.iter().map(|artifact| (&artifact.id, &artifact.parts));
    let (_, parts) = said.chain(made).find(|(each, _)| !id.is_empty() && *each == id)?;
    parts.iter().rev().find_map(output_of).map(str::to_owned)
}

fn output_of(part: &Part) -> Option<&str> {
    match part.content.as_ref()? {
        Content::Text(text) => Some(text),
        Content::Data(value) => Some(payload_text(value)),
        Content::ToolOutput(output) => match output.outcome.as_ref() {
            Some(Outcome::Result(value)) => Some(payload_text(value)),
            Some(Outcome::Failure(_)) => None,
            None => Some(""),
        },
        Content::InferOutput(inferred) => match inferred.content.as_ref()? {
            infer_output::Content::Text(text) => Some(text),
            infer_output::Content::Value(value) => Some(payload_text(value)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts;
    use crate::v1::{Artifact, Failure, ToolOutput};

    #[test]
    fn each_submission_is_a_request_of_its_own() {
        let (first, second) = (Submission::text("a"), Submission::text("a"));
        assert_eq!(first.input.messages, second.input.messages);
        assert_ne!(first.request_id, second.request_id);
        assert_ne!(first.task_id(), second.task_id());
        assert_eq!(first.request_id("mine").request_id, "mine");
    }

    #[test]
    fn a_submission_says_whether_to_create_or_to_continue() {
        let new = Submission::text("a");
        assert!(Uuid::parse_str(new.task_id()).is_ok());
        assert_eq!(new.input.target(), TaskTarget::Create);
        for (submission, target) in [
            (Submission::text("a").id("t"), TaskTarget::Create),
            (Submission::text("a").continuing("t"), TaskTarget::Continue),
            (
                Submission::text("a").creating_or_continuing("t"),
                TaskTarget::CreateOrContinue,
            ),
        ] {
            assert_eq!((submission.task_id(), submission.input.target()), ("t", target));
        }
        let input = TaskInput {
            task_id: "t".into(),
            expected_sequence: 7,
            ..Default::default()
        };
        assert_eq!(Submission::from(input.clone()).input, input); // read as continue
        assert_eq!(
            Submission::text("a")
                .continuing("t")
                .expected_sequence(7)
                .input
                .expected_sequence,
            7
        );
    }

    #[test]
    fn the_output_is_what_the_agent_names_as_the_answer() {
        let part = |content| Part {
            content: Some(content),
            ..Default::default()
        };
        let failed = part(Content::ToolOutput(ToolOutput {
            outcome: Some(Outcome::Failure(Failure::default())),
            ..Default::default()
        }));
        let said = Message {
            id: "m".into(),
            parts: vec![part(Content::Text("said".into()))],
            ..Default::default()
        };
        let made = |id: &str, parts| Artifact {
            id: id.into(),
            parts,
            ..Default::default()
        };
        let mut task = Task {
            messages: vec![said],
            artifacts: vec![
                made("a", vec![parts::json("1"), failed.clone()]),
                made("b", vec![failed]),
            ],
            ..Default::default()
        };
        for (id, wanted) in [
            ("", None),
            ("m", Some("said")),
            ("a", Some("1")),
            ("b", None),
            ("c", None),
        ] {
            task.output_id = id.into();
            assert_eq!(output(&task).as_deref(), wanted, "{id}");
        }
    }
}
