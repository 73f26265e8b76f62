//! The control of a caller's tasks: drafts, descriptions, links, pauses, retries, and work outside of the agent.

use std::fmt;

use uuid::Uuid;

use crate::client::present;
use crate::connection::{Connection, MAX_MESSAGE_BYTES, method};
use crate::v1::task_control_service_client::TaskControlServiceClient;
use crate::v1::{
    AppendTaskProgressRequest, CompleteTaskRequest, CreateTaskRequest, FailTaskRequest, Failure,
    GetTaskSnapshotRequest, LinkKind, LinkTasksRequest, ListTaskSnapshotsRequest, PauseTaskRequest, ResumeTaskRequest,
    RetryTaskRequest, StartTaskRequest, TaskDescription, TaskLink, TaskSnapshot, UnlinkTasksRequest, UpdateTaskRequest,
};
use crate::{Error, Feed, Submission, Transport};

/// The control of the caller's tasks with an agent: [`Client::tasks`](crate::Client::tasks). Each method returns the
/// task after the call.
///
/// Calls are repeated as those of the client are. They fail with [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND) if
/// the caller has no such task. Agents of other systems have no task control:
/// [`UNIMPLEMENTED`](crate::reason::UNIMPLEMENTED).
#[derive(Clone)]
pub struct TaskControl {
    connection: Connection,
}

/// A task that does not begin before it is started. Texts and submissions become one by themselves.
///
/// It is one request: a clone that is sent again is the same request, and no second task.
///
/// ```
/// # use plgrpc_client::{Draft, v1::LinkKind};
/// let draft = Draft::from("Check the figures").link(LinkKind::BlockedBy, "collect-the-figures");
/// ```
#[derive(Clone, Debug)]
pub struct Draft(CreateTaskRequest);

impl Draft {
    /// Describes the work for people and programs.
    pub fn description(mut self, description: TaskDescription) -> Self {
        self.0.description = Some(description);
        self
    }

    /// Links the task, at most 100 times. `target` is the id of another task of the caller, or an id or a URI for
    /// `LinkKind::Artifact` and `LinkKind::Evidence`.
    pub fn link(mut self, kind: LinkKind, target: impl Into<String>) -> Self {
        self.0.links.push(link(kind, target.into()));
        self
    }
}

/// The id of the request and that of the task are those of the submission.
impl From<Submission> for Draft {
    fn from(submission: Submission) -> Self {
        Self(CreateTaskRequest {
            input: Some(submission.input),
            request_id: submission.request_id,
            ..Default::default()
        })
    }
}

impl From<&str> for Draft {
    fn from(text: &str) -> Self {
        Submission::text(text).into()
    }
}

impl From<String> for Draft {
    fn from(text: String) -> Self {
        Submission::text(text).into()
    }
}

impl TaskControl {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The generated client of the service, credentials included. Nothing is repeated there.
    pub fn service(&self) -> TaskControlServiceClient<Transport> {
        TaskControlServiceClient::new(self.connection.transport())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Creates a draft.
    ///
    /// # Errors
    ///
    /// [`TASK_ALREADY_EXISTS`](crate::reason::TASK_ALREADY_EXISTS), [`LINK_CYCLE`](crate::reason::LINK_CYCLE).
    /// [`TASK_NOT_FOUND`](crate::reason::TASK_NOT_FOUND): a link is to an unknown task.
    pub async fn create(&self, draft: impl Into<Draft>) -> Result<TaskSnapshot, Error> {
        let Draft(request) = draft.into();
        let about = request.input.as_ref().map(|input| input.task_id.clone());
        let answer = self
            .connection
            .unary(request, method!(self.service(), create_task))
            .await;
        snapshot(
            answer
                .map_err(|error| error.about(&about.unwrap_or_default()))?
                .snapshot,
        )
    }

    /// Changes the description of a task, as a whole, or keys of its metadata.
    ///
    /// # Errors
    ///
    /// [`SEQUENCE_CONFLICT`](crate::reason::SEQUENCE_CONFLICT): the last event of the task is not `expected_sequence`;
    /// also for a repetition after a response that got lost.
    pub async fn update(&self, request: UpdateTaskRequest) -> Result<TaskSnapshot, Error> {
        let method = method!(self.service(), update_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is
    /// returned unchanged.
    ///
    /// # Errors
    ///
    /// [`TASK_FINISHED`](crate::reason::TASK_FINISHED).
    pub async fn start(&self, task_id: impl Into<String>) -> Result<TaskSnapshot, Error> {
        self.begin(task_id.into(), false).await
    }

    /// Starts a draft whose work is done outside of the agent: no run begins, and [`complete`](Self::complete) or
    /// [`fail`](Self::fail) ends the task.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_external(&self, task_id: impl Into<String>) -> Result<TaskSnapshot, Error> {
        self.begin(task_id.into(), true).await
    }

    async fn begin(&self, task_id: String, external: bool) -> Result<TaskSnapshot, Error> {
        let request = StartTaskRequest { task_id, external };
        let method = method!(self.service(), start_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Adds a progress report to a task that has not ended. A request without an id gets one.
    ///
    /// # Errors
    ///
    /// [`TASK_FINISHED`](crate::reason::TASK_FINISHED).
    pub async fn report_progress(&self, mut request: AppendTaskProgressRequest) -> Result<TaskSnapshot, Error> {
        if request.request_id.is_empty() {
            request.request_id = Uuid::new_v4().to_string();
        }
        let method = method!(self.service(), append_task_progress);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Pauses a task at the next point at which its run can wait. A pause survives restarts of the agent.
    ///
    /// # Errors
    ///
    /// [`TASK_FINISHED`](crate::reason::TASK_FINISHED).
    /// [`INVALID_TRANSITION`](crate::reason::INVALID_TRANSITION): the task is a draft, or waits for input.
    pub async fn pause(&self, task_id: impl Into<String>, reason: impl Into<String>) -> Result<TaskSnapshot, Error> {
        let request = PauseTaskRequest {
            task_id: task_id.into(),
            reason: reason.into(),
        };
        let method = method!(self.service(), pause_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Ends the pause of a task. A task that is not paused is returned unchanged.
    ///
    /// # Errors
    ///
    /// [`TASK_FINISHED`](crate::reason::TASK_FINISHED).
    pub async fn resume(&self, task_id: impl Into<String>, reason: impl Into<String>) -> Result<TaskSnapshot, Error> {
        let request = ResumeTaskRequest {
            task_id: task_id.into(),
            reason: reason.into(),
        };
        let method = method!(self.service(), resume_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Begins the work on an ended task again, with the same input. A request without an id gets one.
    ///
    /// # Errors
    ///
    /// [`INVALID_TRANSITION`](crate::reason::INVALID_TRANSITION): the task has not ended.
    pub async fn retry(&self, mut request: RetryTaskRequest) -> Result<TaskSnapshot, Error> {
        if request.request_id.is_empty() {
            request.request_id = Uuid::new_v4().to_string();
        }
        let method = method!(self.service(), retry_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Ends a task with success, for work outside of the agent. The messages and artifacts are added before the end;
    /// the output of the task is in the last message of the agent among them.
    ///
    /// # Errors
    ///
    /// [`TASK_ALREADY_RUNNING`](crate::reason::TASK_ALREADY_RUNNING): the agent works on it.
    /// [`TASK_FINISHED`](crate::reason::TASK_FINISHED): it has ended in another state.
    pub async fn complete(&self, request: CompleteTaskRequest) -> Result<TaskSnapshot, Error> {
        let method = method!(self.service(), complete_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Ends a task with a failure, whose message is required.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    pub async fn fail(&self, task_id: impl Into<String>, failure: Failure) -> Result<TaskSnapshot, Error> {
        let request = FailTaskRequest {
            task_id: task_id.into(),
            failure: Some(failure),
        };
        let method = method!(self.service(), fail_task);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Adds a link to a task, or changes the reason of an existing one.
    ///
    /// # Errors
    ///
    /// [`LINK_CYCLE`](crate::reason::LINK_CYCLE): the other task leads back to this one.
    /// [`TASK_STARTED`](crate::reason::TASK_STARTED): a task that has been started cannot be blocked.
    /// [`TASK_FINISHED`](crate::reason::TASK_FINISHED).
    pub async fn link(&self, task_id: impl Into<String>, link: TaskLink) -> Result<TaskSnapshot, Error> {
        let request = LinkTasksRequest {
            task_id: task_id.into(),
            link: Some(link),
        };
        let method = method!(self.service(), link_tasks);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// Removes a link, if it exists. A started task without any other blocker begins.
    ///
    /// # Errors
    ///
    /// What the agent answers.
    pub async fn unlink(
        &self,
        task_id: impl Into<String>,
        kind: LinkKind,
        target: impl Into<String>,
    ) -> Result<TaskSnapshot, Error> {
        let request = UnlinkTasksRequest {
            task_id: task_id.into(),
            link: Some(link(kind, target.into())),
        };
        let method = method!(self.service(), unlink_tasks);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// A task with its status in detail, its attempts and its links.
    ///
    /// # Errors
    ///
    /// What the agent answers.
    pub async fn get(&self, task_id: impl Into<String>) -> Result<TaskSnapshot, Error> {
        let request = GetTaskSnapshotRequest {
            task_id: task_id.into(),
        };
        let method = method!(self.service(), get_task_snapshot);
        snapshot(self.connection.unary(request, method).await?.snapshot)
    }

    /// The caller's tasks without attempts and links, last changed first, page after page.
    pub fn list(&self, request: ListTaskSnapshotsRequest) -> Feed<TaskSnapshot> {
        let tasks = self.clone();
        Feed::pages(request.page_token.clone(), move |page_token| {
            let (tasks, request) = (tasks.clone(), request.clone());
            let request = ListTaskSnapshotsRequest { page_token, ..request };
            async move {
                let method = method!(tasks.service(), list_task_snapshots);
                let page = tasks.connection.unary(request, method).await?;
                Ok((page.snapshots, page.next_page_token))
            }
        })
    }
}

impl fmt::Debug for TaskControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskControl") // what goes with its calls is secret
    }
}

fn link(kind: LinkKind, target: String) -> TaskLink {
    TaskLink {
        kind: kind.into(),
        target,
        ..Default::default()
    }
}

fn snapshot(given: Option<TaskSnapshot>) -> Result<TaskSnapshot, Error> {
    present(given, "snapshot")
}
