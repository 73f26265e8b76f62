//! The verbs of an agent.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use tonic::{Code, Status};

use crate::connection::{Connection, MAX_MESSAGE_BYTES, method};
use crate::events::Events;
use crate::feed::{Batches, Source};
use crate::v1::agent_service_client::AgentServiceClient;
use crate::v1::control_service_client::ControlServiceClient;
use crate::v1::{
    AgentCard, Approval, ApprovalDecision, ApprovalState, CancelTaskRequest, GetAgentCardRequest, GetTaskRequest,
    ListApprovalsRequest, ListTasksRequest, RespondApprovalRequest, RespondApprovalResponse, RunEvent, SendTaskRequest,
    StopAt, StreamTaskRequest, Task, WatchApprovalsRequest, WatchApprovalsResponse,
};
use crate::{Builder, Error, Feed, Submission, Transport};

pub(crate) type Agent = AgentServiceClient<Transport>;
type Control = ControlServiceClient<Transport>;

/// Speaks with one agent. Clones share its connection, and one per agent is enough.
#[derive(Clone)]
pub struct Client {
    connection: Connection,
}

impl Client {
    /// A client of the agent at `url`: `grpc://host:port` in the clear, `grpcs://host:port` over TLS; `host:port` alone
    /// is in the clear. It does no I/O, and is to be called inside of a Tokio runtime; for more see [`Builder`].
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    pub fn connect(url: impl Into<String>) -> Result<Self, Error> {
        Self::builder(url).connect()
    }

    /// How to connect to the agent at `url` with credentials, TLS or another timeout.
    pub fn builder(url: impl Into<String>) -> Builder<Self> {
        Builder::new(url, |connection| Self { connection })
    }

    /// The same client with another timeout for calls with one answer: it bounds the wait, and never the run. `None`
    /// means without bound.
    pub fn with_timeout(&self, timeout: impl Into<Option<Duration>>) -> Self {
        let mut client = self.clone();
        client.connection.timeout = timeout.into();
        client
    }

    /// The generated client of the agent, credentials included, for what this one has no verb for. Nothing is repeated
    /// there.
    pub fn agent(&self) -> AgentServiceClient<Transport> {
        let agent = Agent::new(self.connection.transport.clone());
        agent
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// As [`agent`](Self::agent), of its control plane: reports, exports, state and tools.
    pub fn control(&self) -> ControlServiceClient<Transport> {
        let control = Control::new(self.connection.transport.clone());
        control
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Starts or continues a task and waits until it ends or waits for somebody. Returns the task with what this turn
    /// has added.
    ///
    /// A task that failed is returned and is no error: look at its state. A call that did not get through is repeated
    /// under the same request id.
    ///
    /// # Errors
    ///
    /// What the agent answers; `DeadlineExceeded` when the timeout is over first, and the task goes on.
    pub async fn send(&self, submission: impl Into<Submission>) -> Result<Task, Error> {
        let Submission {
            task,
            request_id,
            task_id,
        } = submission.into();
        let request = SendTaskRequest {
            task: Some(task),
            request_id,
            task_id,
            ..Default::default()
        };
        let answer = self.connection.unary(request, method!(self.agent(), send_task)).await?;
        present(answer.task, "task")
    }

    /// Starts or continues a task and yields the events of this turn as they are committed, until the task ends or
    /// waits for somebody.
    ///
    /// Sequences follow each other without a gap, and none is shown twice, whatever happens to the connection. Dropping
    /// the feed ends the watch and not the task.
    pub fn stream(&self, submission: impl Into<Submission>) -> Feed<RunEvent> {
        let Submission {
            task,
            request_id,
            task_id,
        } = submission.into();
        let request = StreamTaskRequest {
            task: Some(task),
            request_id,
            task_id,
            deltas: false,
        };
        self.events(Some(request), String::new(), 0, StopAt::Interrupted)
    }

    /// Yields the events of a task after a sequence (0: from the beginning): first what is stored, then what comes,
    /// until `stop_at`. It survives cuts as [`stream`](Self::stream) does.
    ///
    /// Deltas of text have no place in the log and are not yielded; for these, use [`agent`](Self::agent).
    pub fn subscribe(&self, task_id: impl Into<String>, after: i64, stop_at: StopAt) -> Feed<RunEvent> {
        self.events(None, task_id.into(), after, stop_at)
    }

    fn events(&self, begin: Option<StreamTaskRequest>, task_id: String, seen: i64, stop_at: StopAt) -> Feed<RunEvent> {
        let events = Events {
            agent: self.agent(),
            begin,
            task_id,
            seen,
            stop_at,
            is_complete: false,
        };
        Feed::of(events, self.connection.attempts)
    }

    /// The whole task as it is now.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND).
    pub async fn get(&self, task_id: impl Into<String>) -> Result<Task, Error> {
        let request = GetTaskRequest {
            task_id: task_id.into(),
            ..Default::default()
        };
        let answer = self.connection.unary(request, method!(self.agent(), get_task)).await?;
        present(answer.task, "task")
    }

    /// The caller's tasks that match, last changed first, page after page. They have no messages and no artifacts
    /// unless `request.view` asks for them.
    pub fn list(&self, request: ListTasksRequest) -> Feed<Task> {
        let client = self.clone();
        Feed::pages(request.page_token.clone(), move |page_token| {
            let (client, request) = (
                client.clone(),
                ListTasksRequest {
                    page_token,
                    ..request.clone()
                },
            );
            async move {
                let page = client
                    .connection
                    .unary(request, method!(client.agent(), list_tasks))
                    .await?;
                Ok((page.tasks, page.next_page_token))
            }
        })
    }

    /// Asks the agent to end a task, and returns it as it is afterwards, without messages. The reason is one sentence
    /// for the log.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_CANCELABLE`](crate::reason::TASK_NOT_CANCELABLE): it has ended.
    pub async fn cancel(&self, task_id: impl Into<String>, reason: impl Into<String>) -> Result<Task, Error> {
        let request = CancelTaskRequest {
            task_id: task_id.into(),
            reason: reason.into(),
            ..Default::default()
        };
        let answer = self
            .connection
            .unary(request, method!(self.agent(), cancel_task))
            .await?;
        present(answer.task, "task")
    }

    /// Who the agent is and what it can do.
    ///
    /// # Errors
    ///
    /// What the agent answers, or `Unavailable`.
    pub async fn card(&self) -> Result<AgentCard, Error> {
        let answer = self
            .connection
            .unary(GetAgentCardRequest {}, method!(self.agent(), get_agent_card))
            .await?;
        present(answer.card, "card")
    }

    /// Approvals that the caller may answer or has asked for, oldest first, page after page; by default the pending
    /// ones.
    pub fn approvals(&self, request: ListApprovalsRequest) -> Feed<Approval> {
        let client = self.clone();
        Feed::pages(request.page_token.clone(), move |page_token| {
            let (client, request) = (
                client.clone(),
                ListApprovalsRequest {
                    page_token,
                    ..request.clone()
                },
            );
            async move {
                let page = client
                    .connection
                    .unary(request, method!(client.control(), list_approvals))
                    .await?;
                Ok((page.approvals, page.next_page_token))
            }
        })
    }

    /// What waits for an answer, then what is asked for and answered as it happens; of one task, or of all where
    /// `task_id` is empty. It does not end by itself.
    ///
    /// Through a cut it shows each pending approval once all the same; an answer that was given during the cut is not
    /// shown.
    pub fn watch_approvals(&self, task_id: impl Into<String>) -> Feed<Approval> {
        let source = Approvals {
            control: self.control(),
            task_id: task_id.into(),
            pending: HashSet::new(),
        };
        Feed::of(source, self.connection.attempts)
    }

    /// Answers an approval as it was shown: what runs is what the caller has seen. The reason is one sentence for the
    /// log. Where somebody has answered before, nothing changes, and the response says so.
    ///
    /// # Errors
    ///
    /// [`APPROVAL_CHANGED`](crate::reason::APPROVAL_CHANGED): something else would run than what was shown.
    pub async fn respond(
        &self,
        approval: &Approval,
        approved: bool,
        reason: impl Into<String>,
    ) -> Result<RespondApprovalResponse, Error> {
        let question = approval.request.clone().unwrap_or_default();
        let decision = ApprovalDecision {
            request_id: question.request_id,
            approved,
            reason: reason.into(),
            fingerprint: question.action.unwrap_or_default().fingerprint,
            ..Default::default()
        };
        let request = RespondApprovalRequest {
            decision: Some(decision),
        };
        self.connection
            .unary(request, method!(self.control(), respond_approval))
            .await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client") // what goes with its calls is secret
    }
}

/// What an answer must have.
pub(crate) fn present<T>(field: Option<T>, name: &str) -> Result<T, Error> {
    field.ok_or_else(|| Error::new(Code::Internal, format!("the answer has no {name}")))
}

/// Approvals as they are asked for and answered.
struct Approvals {
    control: Control,
    task_id: String,
    /// Ids of what has been shown as waiting.
    pending: HashSet<String>,
}

impl Source for Approvals {
    type Batch = WatchApprovalsResponse;
    type Item = Approval;

    async fn open(&mut self) -> Result<Batches<WatchApprovalsResponse>, Status> {
        let request = WatchApprovalsRequest {
            task_id: self.task_id.clone(),
        };
        Ok(self.control.watch_approvals(request).await?.into_inner().boxed())
    }

    fn news(&mut self, batch: WatchApprovalsResponse) -> Result<Vec<Approval>, Error> {
        let mut is_news = |approval: &Approval| {
            let id = approval.request.as_ref().map_or("", |request| &request.request_id);
            if approval.state() == ApprovalState::Pending {
                return self.pending.insert(id.to_owned());
            }
            self.pending.remove(id);
            true
        };
        Ok(batch.approvals.into_iter().filter(&mut is_news).collect())
    }
}
