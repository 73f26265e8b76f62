//! The values that the events of a log refer to.

use std::collections::HashMap;

use crate::parts;
use crate::v1::part::Content;
use crate::v1::payload::Value;
use crate::v1::run_event::Payload;
use crate::v1::{Message, PolicyDecision, RunAction, RunEvent, TaskState, ToolCall};

/// Resolves what the events of one log refer to. An event leaves out a value that an earlier event of the log has: the
/// arguments of an action that a tool call requested, and the action and the verdict of an approval.
///
/// [`Client::stream`](crate::Client::stream) and [`Client::subscribe`](crate::Client::subscribe) resolve the arguments
/// themselves. Use one of your own to look up actions and verdicts while you read a stream, or to read events from
/// elsewhere. Pass each event of the log to [`resolve`](Self::resolve), in order.
///
/// A log that is read from its beginning, or from the beginning of a turn, is resolved completely. If it is read from
/// the middle, what refers to an event before that stays as it is: [`is_abridged`](Self::is_abridged) reports it, and
/// [`action`](Self::action) does not know the action.
///
/// ```no_run
/// # use plgrpc_client::{Client, Error, References, v1::run_event::Payload};
/// # async fn run(client: Client) -> Result<(), Error> {
/// let mut references = References::default();
/// let mut events = client.stream("Tidy up");
/// while let Some(event) = events.try_next().await? {
///     let event = references.resolve(event);
///     if let Some(Payload::ApprovalRequired(_)) = event.payload {
///         println!("approve {:?}?", references.action(&event.action_id));
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct References {
    /// JSON text of the arguments of the tool calls that no action has named yet, by call id.
    calls: HashMap<String, String>,
    actions: HashMap<String, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    action: RunAction,
    verdict: Option<PolicyDecision>,
}

impl References {
    /// Notes the next event of the log, and returns it with its arguments put back.
    pub fn resolve(&mut self, mut event: RunEvent) -> RunEvent {
        match &mut event.payload {
            Some(Payload::TaskSubmitted(submitted)) => {
                if let Some(task) = &submitted.task {
                    self.note_messages(&task.messages);
                }
            }
            Some(Payload::TaskMessages(added)) => self.note_messages(&added.messages),
            Some(Payload::LlmCallCompleted(answer)) => answer.tool_calls.iter().for_each(|call| self.note(call)),
            Some(Payload::TaskStatus(change)) if is_at_rest(change.new_state()) => {
                self.calls.clear();
                self.actions.clear();
            }
            Some(Payload::ActionRequested(requested)) => {
                if let Some(action) = &mut requested.action {
                    self.note_action(&event.action_id, action);
                }
            }
            Some(Payload::ActionPolicy(judged)) => {
                if let Some(known) = self.actions.get_mut(&event.action_id) {
                    known.verdict.clone_from(&judged.decision);
                }
            }
            Some(Payload::ActionEnded(_)) => {
                self.actions.remove(&event.action_id);
            }
            _ => {}
        }
        event
    }

    /// The action of that id, as it was requested; `action_id` of an event names it. `None` for an action that has
    /// ended, or that was requested before the first event that was read.
    pub fn action(&self, action_id: &str) -> Option<&RunAction> {
        self.actions.get(action_id).map(|known| &known.action)
    }

    /// The last decision of the policy about the action of that id. `None` where there is none, or the action is not
    /// known.
    pub fn verdict(&self, action_id: &str) -> Option<&PolicyDecision> {
        self.actions.get(action_id)?.verdict.as_ref()
    }

    /// Whether the event requests an action whose arguments are in an earlier event of the log.
    pub fn is_abridged(event: &RunEvent) -> bool {
        match &event.payload {
            Some(Payload::ActionRequested(requested)) => requested.action.as_ref().is_some_and(leaves_out),
            _ => false,
        }
    }

    fn note_action(&mut self, action_id: &str, action: &mut RunAction) {
        let arguments = self.calls.remove(&action.call_id);
        if let Some(arguments) = arguments.filter(|_| leaves_out(action)) {
            action.payload = Some(parts::json_payload(format!(r#"{{"arguments":{arguments}}}"#)));
        }
        let known = Known {
            action: action.clone(),
            verdict: None,
        };
        self.actions.insert(action_id.to_owned(), known);
    }

    fn note_messages(&mut self, messages: &[Message]) {
        for part in messages.iter().flat_map(|message| &message.parts) {
            if let Some(Content::ToolCall(call)) = &part.content {
                self.note(call);
            }
        }
    }

    fn note(&mut self, call: &ToolCall) {
        if call.call_id.is_empty() {
            return;
        }
        self.calls.remove(&call.call_id);
        let arguments = match &call.arguments {
            None => "{}",
            Some(payload) => match &payload.value {
                Some(Value::Json(text)) if payload.encoding.is_empty() => text,
                _ => return, // an action has no such arguments
            },
        };
        self.calls.insert(call.call_id.clone(), arguments.to_owned());
    }
}

fn leaves_out(action: &RunAction) -> bool {
    !action.call_id.is_empty() && action.payload.is_none()
}

/// Whether the task has ended or waits for input.
fn is_at_rest(state: TaskState) -> bool {
    use TaskState::{AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected};
    matches!(
        state,
        Completed | Canceled | Failed | Rejected | InputRequired | AuthRequired
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{
        ActionEnded, ActionPolicyEvaluated, ActionRequested, LlmCallCompleted, Part, Task, TaskMessagesAdded,
        TaskStatusChanged, TaskSubmitted,
    };

    fn event(payload: Payload) -> RunEvent {
        RunEvent {
            action_id: "a".into(),
            payload: Some(payload),
            ..Default::default()
        }
    }

    fn call(arguments: Option<crate::v1::Payload>) -> ToolCall {
        ToolCall {
            call_id: "c".into(),
            arguments,
            ..Default::default()
        }
    }

    fn called(tool_calls: impl Into<Vec<ToolCall>>) -> RunEvent {
        event(Payload::LlmCallCompleted(LlmCallCompleted {
            tool_calls: tool_calls.into(),
            ..Default::default()
        }))
    }

    fn requested(call_id: &str, payload: Option<crate::v1::Payload>) -> RunEvent {
        let action = RunAction {
            call_id: call_id.into(),
            payload,
            ..Default::default()
        };
        event(Payload::ActionRequested(ActionRequested {
            action: Some(action),
            ..Default::default()
        }))
    }

    fn is_left_out(references: &mut References, event: RunEvent) -> bool {
        References::is_abridged(&references.resolve(event))
    }

    #[test]
    fn arguments_that_an_event_leaves_out_are_put_back() {
        let part = Part {
            content: Some(Content::ToolCall(call(None))),
            ..Default::default()
        };
        let messages = vec![Message {
            parts: vec![part],
            ..Default::default()
        }];
        let task = Task {
            messages: messages.clone(),
            ..Default::default()
        };
        let submitted = event(Payload::TaskSubmitted(TaskSubmitted {
            task: Some(task),
            ..Default::default()
        }));
        let added = event(Payload::TaskMessages(TaskMessagesAdded {
            messages,
            ..Default::default()
        }));
        let model = called([call(Some(parts::json_payload(r#"{"n":1}"#)))]);
        for (before, wanted) in [
            (vec![submitted.clone()], r#"{"arguments":{}}"#),
            (vec![submitted, added, model], r#"{"arguments":{"n":1}}"#), // the last one counts
        ] {
            let mut references = References::default();
            for event in before {
                references.resolve(event);
            }
            assert!(!is_left_out(&mut references, requested("c", None)));
            let payload = references.action("a").and_then(|action| action.payload.clone());
            assert_eq!(payload, Some(parts::json_payload(wanted)));
            assert!(is_left_out(&mut references, requested("c", None)), "named twice");
        }
    }

    #[test]
    fn what_was_before_the_first_event_stays_as_it_is() {
        let mut references = References::default();
        assert!(is_left_out(&mut references, requested("c", None)));
        assert!(references.action("a").is_some());
        assert_eq!(references.action("b"), None);
        let bytes = crate::v1::Payload {
            value: Some(Value::Data(b"x".to_vec())),
            ..Default::default()
        };
        references.resolve(called([call(Some(parts::json_payload("{}"))), call(Some(bytes))]));
        assert!(is_left_out(&mut references, requested("c", None)));
        for whole in [requested("c", Some(parts::json_payload("{}"))), requested("", None)] {
            assert_eq!(references.resolve(whole.clone()), whole);
            assert!(!References::is_abridged(&whole));
        }
    }

    #[test]
    fn actions_and_calls_are_forgotten_when_they_are_over() {
        let judged = event(Payload::ActionPolicy(ActionPolicyEvaluated {
            decision: Some(PolicyDecision::default()),
        }));
        let ended = event(Payload::ActionEnded(ActionEnded::default()));
        let asks = event(Payload::TaskStatus(TaskStatusChanged {
            new_state: TaskState::InputRequired.into(),
            ..Default::default()
        }));
        for (last, forgets_calls) in [(ended, false), (asks, true)] {
            let mut references = References::default();
            for event in [
                judged.clone(),
                requested("", None),
                judged.clone(),
                called([call(None)]),
            ] {
                references.resolve(event);
            }
            assert!(references.verdict("a").is_some());
            references.resolve(last);
            assert_eq!((references.action("a"), references.verdict("a")), (None, None));
            assert_eq!(is_left_out(&mut references, requested("c", None)), forgets_calls);
        }
    }
}
