//! The client of an agent.

use std::fmt;
use std::time::Duration;

use tonic::Code;
use uuid::Uuid;

use crate::approvals::Approvals;
use crate::connection::{Connection, MAX_MESSAGE_BYTES, method};
use crate::events::Events;
use crate::v1::agent_service_client::AgentServiceClient;
use crate::v1::control_service_client::ControlServiceClient;
use crate::v1::{
    AgentCard, Approval, ApprovalVerdict, CallToolRequest, CallToolResponse, CancelTaskRequest, DeltaMode,
    GetAgentCardRequest, GetTaskRequest, ListApprovalsRequest, ListTasksRequest, ListToolsRequest, Payload,
    RespondApprovalRequest, RespondApprovalResponse, RunEvent, SendTaskRequest, StopAt, StreamTaskRequest, Task,
    TaskView, Tool, WaitFor,
};
use crate::{Builder, Error, Feed, Sessions, Snapshots, StubChannel, Submission, TaskControl, Transport, Update};

pub(crate) type Agent = AgentServiceClient<Transport>;
pub(crate) type Control = ControlServiceClient<Transport>;

/// Speaks with one agent. Clones share its connection, and one per agent is enough.
#[derive(Clone)]
pub struct Client {
    connection: Connection,
}

impl Client {
    /// A client of the agent at `url`: `grpc://host:port` without TLS, `grpcs://host:port` over TLS; `host:port` alone
    /// is without TLS. It does no I/O, and is to be called inside of a Tokio runtime; for more see [`Builder`].
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

    /// The same client with a header more, instead of those of the same name: for single calls, for instance
    /// `client.with_metadata("x-request", "7")?.send("Hello")`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`: it is no header, or a credential that would go over the network unencrypted.
    pub fn with_metadata(&self, name: impl AsRef<str>, value: impl AsRef<str>) -> Result<Self, Error> {
        let connection = self.connection.with_header(name.as_ref(), value.as_ref())?;
        Ok(Self { connection })
    }

    /// What generated clients of the agent's typed services speak over: `CalculatorClient::new(client.channel())`.
    ///
    /// Calls have this client's credentials and headers, and are retried after an interruption, as those of this client
    /// are. All attempts have one header `x-request-id`, so that an agent runs the call once; the caller may set it, to
    /// repeat a call from another process. The header `x-task-id` of an answer is the id of the task that the call was.
    ///
    /// This client's timeout limits the wait for the first message of an answer; `Request::set_timeout` limits the
    /// whole call.
    ///
    /// [`Error::from`] reads the status of a failed call, with its reason, violations and task.
    ///
    /// A stream of responses that is a task continues after an interruption with the next response; other streams are
    /// repeated only before their first response. Calls with several requests are not repeated. Neither are those of
    /// plgrpc's own services, whose request ids are fields of their requests.
    pub fn channel(&self) -> StubChannel {
        StubChannel::new(self.connection.clone())
    }

    /// The generated client of the agent, credentials included, for what this one has no verb for. Nothing is repeated
    /// there.
    pub fn agent(&self) -> AgentServiceClient<Transport> {
        let agent = Agent::new(self.connection.transport());
        agent
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// As [`agent`](Self::agent), of its control plane: reports, exports, state and tools.
    pub fn control(&self) -> ControlServiceClient<Transport> {
        let control = Control::new(self.connection.transport());
        control
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The sessions of the caller with the agent: conversations whose inputs wait for each other.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.connection.clone(), self.agent())
    }

    /// The control of the caller's tasks: drafts, links, pauses, retries, and work outside of the agent.
    pub fn tasks(&self) -> TaskControl {
        TaskControl::new(self.connection.clone())
    }

    /// What the caller's sessions, threads and tasks are now.
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.connection.clone())
    }

    /// Starts or continues a task and waits until it ends or waits for input. Returns the task with what this turn
    /// has added.
    ///
    /// A task that failed is returned and is no error: look at its state. An interrupted call is retried with the same
    /// request id.
    ///
    /// # Errors
    ///
    /// The errors of the agent; `DeadlineExceeded` if the timeout passes first: the task continues.
    pub async fn send(&self, submission: impl Into<Submission>) -> Result<Task, Error> {
        self.deliver(submission.into(), WaitFor::Settled).await
    }

    /// As [`send`](Self::send), and returns as soon as the agent has accepted the task. Follow it with
    /// [`subscribe`](Self::subscribe), or look with [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn submit(&self, submission: impl Into<Submission>) -> Result<Task, Error> {
        self.deliver(submission.into(), WaitFor::Accepted).await
    }

    async fn deliver(&self, submission: Submission, wait_for: WaitFor) -> Result<Task, Error> {
        let about = submission.task_id().to_owned();
        let request = SendTaskRequest {
            input: Some(submission.input),
            request_id: submission.request_id,
            view: submission.view.into(),
            wait_for: wait_for.into(),
        };
        let answer = self.connection.unary(request, method!(self.agent(), send_task)).await;
        let answer = answer.map_err(|error| error.about(&about))?;
        present(answer.task, "task")
    }

    /// Starts or continues a task and yields the events of this turn as they are committed, until the task ends or
    /// waits for input.
    ///
    /// It resumes after interruptions: each event is yielded once, in order and without a gap. Dropping the feed ends
    /// the call and not the task.
    pub fn stream(&self, submission: impl Into<Submission>) -> Feed<RunEvent> {
        self.follow(self.turn(submission.into(), DeltaMode::None))
            .picked(Update::into_event)
    }

    /// As [`stream`](Self::stream), with the text of models while it is produced.
    pub fn stream_with_deltas(&self, submission: impl Into<Submission>) -> Feed<Update> {
        self.follow(self.turn(submission.into(), DeltaMode::All))
    }

    /// Yields the events of a task after a sequence (0: from the beginning): first what is stored, then what comes,
    /// until `stop_at`. It resumes after interruptions as [`stream`](Self::stream) does.
    pub fn subscribe(&self, task_id: impl Into<String>, after: i64, stop_at: StopAt) -> Feed<RunEvent> {
        self.follow(Events::after(self.agent(), task_id.into(), after, stop_at))
            .picked(Update::into_event)
    }

    /// As [`subscribe`](Self::subscribe), with the text of models while it is produced.
    pub fn subscribe_with_deltas(&self, task_id: impl Into<String>, after: i64, stop_at: StopAt) -> Feed<Update> {
        self.follow(Events::after(self.agent(), task_id.into(), after, stop_at).with_deltas())
    }

    fn turn(&self, submission: Submission, deltas: DeltaMode) -> Events {
        let about = submission.task_id().to_owned();
        let request = StreamTaskRequest {
            input: Some(submission.input),
            request_id: submission.request_id,
            deltas: deltas.into(),
        };
        Events::of_turn(self.agent(), about, request)
    }

    fn follow(&self, events: Events) -> Feed<Update> {
        Feed::of(events, self.connection.patience)
    }

    /// The whole task as it is now.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND).
    pub async fn get(&self, task_id: impl Into<String>) -> Result<Task, Error> {
        self.get_view(task_id, TaskView::Full).await
    }

    /// Returns a view of the current task.
    ///
    /// A whole task that is too large for one response is read by several calls. A view of the latest turn has the
    /// newest messages and artifacts, as many as fit. Parts that are too large are left out: `Task::omitted` names them, and
    /// [`subscribe`](Self::subscribe) has them.
    ///
    /// # Errors
    ///
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND).
    pub async fn get_view(&self, task_id: impl Into<String>, view: TaskView) -> Result<Task, Error> {
        let mut request = GetTaskRequest {
            task_id: task_id.into(),
            view: view.into(),
            ..Default::default()
        };
        let mut task = self.page(request.clone()).await?;
        while view == TaskView::Full && (task.first_message > 0 || task.first_artifact > 0) {
            request.before_message = Some(task.first_message);
            request.before_artifact = Some(task.first_artifact);
            let earlier = self.page(request.clone()).await?;
            if earlier.messages.is_empty() && earlier.artifacts.is_empty() {
                break; // the agent has no more
            }
            task.messages.splice(0..0, earlier.messages);
            task.artifacts.splice(0..0, earlier.artifacts);
            for path in earlier.omitted {
                if !task.omitted.contains(&path) {
                    task.omitted.push(path);
                }
            }
            task.first_message = earlier.first_message;
            task.first_artifact = earlier.first_artifact;
        }
        Ok(task)
    }

    async fn page(&self, request: GetTaskRequest) -> Result<Task, Error> {
        let about = request.task_id.clone();
        let answer = self.connection.unary(request, method!(self.agent(), get_task)).await;
        present(answer.map_err(|error| error.about(&about))?.task, "task")
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
        let about = request.task_id.clone();
        let answer = self.connection.unary(request, method!(self.agent(), cancel_task)).await;
        present(answer.map_err(|error| error.about(&about))?.task, "task")
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

    /// The agent's tools, ordered by name, page after page.
    pub fn tools(&self, request: ListToolsRequest) -> Feed<Tool> {
        let client = self.clone();
        Feed::pages(request.page_token.clone(), move |page_token| {
            let client = client.clone();
            let request = ListToolsRequest { page_token, ..request };
            async move {
                let page = client
                    .connection
                    .unary(request, method!(client.control(), list_tools))
                    .await?;
                Ok((page.tools, page.next_page_token))
            }
        })
    }

    /// Runs one tool of the agent as a task of its own, and waits for its end. A tool that failed is no error: its
    /// output says so. A request without ids gets them; an error has the task's id, by which it can be looked up and
    /// canceled.
    ///
    /// # Errors
    ///
    /// The errors of the agent; `DeadlineExceeded` if the timeout passes first: the task of the call continues.
    pub async fn call_tool(&self, mut request: CallToolRequest) -> Result<CallToolResponse, Error> {
        for id in [&mut request.task_id, &mut request.request_id] {
            if id.is_empty() {
                *id = Uuid::new_v4().to_string();
            }
        }
        let about = request.task_id.clone();
        let answer = self.connection.unary(request, method!(self.control(), call_tool)).await;
        answer.map_err(|error| error.about(&about))
    }

    /// Approvals that the caller may answer or has requested, oldest first, page after page; by default the pending
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

    /// Yields the pending approvals, and then each approval when it is requested or answered: of one task, or of all
    /// tasks if `task_id` is empty. It does not end by itself.
    ///
    /// After an interruption it yields the approvals that were requested or answered meanwhile, each once and in its
    /// current state. If the agent no longer knows the position, it yields the pending approvals.
    pub fn watch_approvals(&self, task_id: impl Into<String>) -> Feed<Approval> {
        let source = Approvals::new(self.control(), task_id.into());
        Feed::of(source, self.connection.patience)
    }

    /// Answers an approval as it was shown: what runs is what the caller has seen. The reason is one sentence for the
    /// log. If it has an answer already, nothing changes, and the response says so. After an interruption the answer is
    /// repeated with the same request id, so it is never taken for the answer of another approver.
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
        self.decide(approval, approved, reason.into(), None).await
    }

    /// Approves an approval with other arguments than the requested ones: the whole JSON object, as text. It is for
    /// approvals whose `edit` is `ApprovalEdit::Arguments`.
    ///
    /// # Errors
    ///
    /// As [`respond`](Self::respond); [`INVALID_ARGUMENT`](crate::reason::INVALID_ARGUMENT): the arguments must not be
    /// edited, or not so.
    pub async fn approve_edited(
        &self,
        approval: &Approval,
        arguments: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<RespondApprovalResponse, Error> {
        let edited = Payload {
            value: Some(crate::v1::payload::Value::Json(arguments.into())),
            ..Default::default()
        };
        self.decide(approval, true, reason.into(), Some(edited)).await
    }

    async fn decide(
        &self,
        approval: &Approval,
        approved: bool,
        reason: String,
        edited_arguments: Option<Payload>,
    ) -> Result<RespondApprovalResponse, Error> {
        let verdict = if approved {
            ApprovalVerdict::Approve
        } else {
            ApprovalVerdict::Deny
        };
        let request = RespondApprovalRequest {
            approval_id: approval.approval_id.clone(),
            verdict: verdict.into(),
            etag: approval.etag.clone(),
            edited_arguments,
            reason,
            request_id: Uuid::new_v4().to_string(),
            ..Default::default()
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
