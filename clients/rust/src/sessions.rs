//! The sessions of a caller with an agent: conversations whose inputs wait for each other.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use futures_util::StreamExt;
use tonic::Status;
use uuid::Uuid;

use crate::client::{Agent, present};
use crate::connection::{Connection, MAX_MESSAGE_BYTES, method};
use crate::events::{Events, has_ended};
use crate::feed::{Batches, Source};
use crate::v1::run_event::Payload;
use crate::v1::session_service_client::SessionServiceClient;
use crate::v1::{
    CreateSessionRequest, DeleteSessionRequest, DeleteSessionResponse, GetSessionRequest, GetSessionResponse,
    InterruptTurnRequest, ListSessionsRequest, Message, MessageRole, Part, PromoteQueuedTurnRequest,
    RemoveQueuedTurnRequest, ResumeThreadRequest, ResumeThreadResponse, RollbackThreadRequest, RunEvent, RuntimeEvent,
    Session, SessionEvent, StartThreadRequest, StreamRuntimeEventsRequest, StreamRuntimeEventsResponse,
    StreamTurnRequest, SubmitTurnRequest, SubscribeSessionRequest, SubscribeSessionResponse, TaskInput, Thread, Turn,
    UpdateQueuedTurnRequest, UpdateSessionRequest, WhenBusy,
};
use crate::{Error, Feed, References, Transport, Update, parts};

pub(crate) type Service = SessionServiceClient<Transport>;

/// The sessions of the caller with an agent: [`Client::sessions`](crate::Client::sessions). A session has threads, and
/// a thread has turns: inputs that run one after the other.
///
/// Calls are repeated as those of the client are. Agents of other systems have no sessions:
/// [`UNIMPLEMENTED`](crate::reason::UNIMPLEMENTED).
#[derive(Clone)]
pub struct Sessions {
    connection: Connection,
    agent: Agent,
}

/// An input to a session. Texts and inputs become one by themselves.
///
/// ```
/// # use plgrpc_client::NewTurn;
/// let turn = NewTurn::text("And a train").id("train").thread("side");
/// ```
#[derive(Clone, Debug)]
pub struct NewTurn(SubmitTurnRequest);

impl NewTurn {
    /// One message that says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::parts([parts::text(text)])
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

    /// Names the turn, for a repetition from another process: the same id in a session is the same turn, whatever else
    /// the repetition contains. At most 128 bytes. Without it, each turn gets an id of its own.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.0.turn_id = id.into();
        self
    }

    /// Submits to that thread. By default the thread `default`, which always exists.
    pub fn thread(mut self, id: impl Into<String>) -> Self {
        self.0.thread_id = id.into();
        self
    }

    /// What happens if the thread has an active turn. By default the new turn waits.
    pub fn when_busy(mut self, policy: WhenBusy) -> Self {
        self.0.when_busy = policy.into();
        self
    }
}

/// An input names neither a task nor a session.
impl From<TaskInput> for NewTurn {
    fn from(input: TaskInput) -> Self {
        Self(SubmitTurnRequest {
            turn_id: new_id(),
            input: Some(input),
            ..Default::default()
        })
    }
}

impl From<&str> for NewTurn {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for NewTurn {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Sessions {
    pub(crate) fn new(connection: Connection, agent: Agent) -> Self {
        Self { connection, agent }
    }

    /// The generated client of the service, credentials included. Nothing is repeated there.
    pub fn service(&self) -> SessionServiceClient<Transport> {
        Service::new(self.connection.transport())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Creates a session, or returns the existing one with that id unchanged. A request without an id gets one.
    ///
    /// # Errors
    ///
    /// What the agent answers.
    pub async fn create(&self, mut request: CreateSessionRequest) -> Result<Session, Error> {
        if request.session_id.is_empty() {
            request.session_id = new_id();
        }
        let method = method!(self.service(), create_session);
        present(self.connection.unary(request, method).await?.session, "session")
    }

    /// Changes the fields of a session that are set.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND).
    pub async fn update(&self, request: UpdateSessionRequest) -> Result<Session, Error> {
        let method = method!(self.service(), update_session);
        present(self.connection.unary(request, method).await?.session, "session")
    }

    /// A session and its newest turns, of one thread or of all, oldest first; the token of the answer requests the
    /// turns before these.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND).
    pub async fn get(&self, request: GetSessionRequest) -> Result<GetSessionResponse, Error> {
        self.connection
            .unary(request, method!(self.service(), get_session))
            .await
    }

    /// The caller's sessions without their threads and turns, last changed first, page after page.
    pub fn list(&self, request: ListSessionsRequest) -> Feed<Session> {
        let sessions = self.clone();
        Feed::pages(request.page_token.clone(), move |page_token| {
            let sessions = sessions.clone();
            let request = ListSessionsRequest { page_token, ..request };
            async move {
                let method = method!(sessions.service(), list_sessions);
                let page = sessions.connection.unary(request, method).await?;
                Ok((page.sessions, page.next_page_token))
            }
        })
    }

    /// Deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
    /// for the session. Open turns are canceled first.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND), also for a repetition after a response that got lost.
    /// [`THREAD_BUSY`](crate::reason::THREAD_BUSY): a run does not stop in time; repeat the call.
    pub async fn delete(&self, session_id: impl Into<String>) -> Result<DeleteSessionResponse, Error> {
        let request = DeleteSessionRequest {
            session_id: session_id.into(),
        };
        let method = method!(self.service(), delete_session);
        self.connection.unary(request, method).await
    }

    /// Starts a thread, or returns the existing one with that id unchanged. A request without a thread id gets one. The
    /// session is created if necessary.
    ///
    /// The conversation of the thread is empty, or with `from_thread_id` that of another thread, up to and with the
    /// turn `from_turn_id`; without it, up to the last turn that has ended.
    ///
    /// # Errors
    ///
    /// [`THREAD_NOT_FOUND`](crate::reason::THREAD_NOT_FOUND), [`TURN_NOT_FOUND`](crate::reason::TURN_NOT_FOUND): there
    /// is no such thread or turn to branch from.
    pub async fn start_thread(&self, mut request: StartThreadRequest) -> Result<Thread, Error> {
        if request.thread_id.is_empty() {
            request.thread_id = new_id();
        }
        let method = method!(self.service(), start_thread);
        present(self.connection.unary(request, method).await?.thread, "thread")
    }

    /// Submits an input to a thread, and returns its turn as soon as it is in the agent's log. If the last task of the
    /// thread waits for input, the turn continues it. The session is created if necessary. After an interruption the
    /// call is repeated with the same turn id, so that an input is never two turns.
    ///
    /// # Errors
    ///
    /// [`THREAD_BUSY`](crate::reason::THREAD_BUSY): the policy is `WhenBusy::Reject`, and the thread has an active
    /// turn. [`THREAD_NOT_FOUND`](crate::reason::THREAD_NOT_FOUND): the thread was not started.
    pub async fn submit(&self, session_id: impl Into<String>, turn: impl Into<NewTurn>) -> Result<Turn, Error> {
        let NewTurn(mut request) = turn.into();
        request.session_id = session_id.into();
        let method = method!(self.service(), submit_turn);
        present(self.connection.unary(request, method).await?.turn, "turn")
    }

    /// Yields the events of a turn, also of one that has not started, until the turn has ended. It resumes after
    /// interruptions as [`Client::stream`](crate::Client::stream) does: no event is shown twice, and none is missing.
    pub fn stream(&self, session_id: impl Into<String>, turn_id: impl Into<String>) -> Feed<RunEvent> {
        self.follow(self.turn(session_id.into(), turn_id.into()))
            .picked(Update::into_event)
    }

    /// As [`stream`](Self::stream), with the text of models while it is produced.
    pub fn stream_with_deltas(&self, session_id: impl Into<String>, turn_id: impl Into<String>) -> Feed<Update> {
        self.follow(self.turn(session_id.into(), turn_id.into()).with_deltas())
    }

    fn turn(&self, session_id: String, turn_id: String) -> Events {
        let request = StreamTurnRequest {
            session_id,
            turn_id,
            ..Default::default()
        };
        Events::of_session(self.agent.clone(), self.service(), request)
    }

    fn follow(&self, events: Events) -> Feed<Update> {
        Feed::of(events, self.connection.patience)
    }

    /// Cancels the active turns of a thread and its task that waits for input, or one turn. Returns the turns that were
    /// open, as they are after the call: none if there was nothing to interrupt.
    ///
    /// A request that names no turn interrupts what is active when it arrives. If its response gets lost, the
    /// repetition may also interrupt a turn that has started meanwhile.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND), [`TURN_NOT_FOUND`](crate::reason::TURN_NOT_FOUND).
    pub async fn interrupt(&self, request: InterruptTurnRequest) -> Result<Vec<Turn>, Error> {
        let method = method!(self.service(), interrupt_turn);
        Ok(self.connection.unary(request, method).await?.turns)
    }

    /// Puts a queued turn at the front of its thread's queue.
    ///
    /// # Errors
    ///
    /// [`TURN_NOT_QUEUED`](crate::reason::TURN_NOT_QUEUED): it has started or ended.
    /// [`TURN_NOT_FOUND`](crate::reason::TURN_NOT_FOUND).
    pub async fn promote(&self, session_id: impl Into<String>, turn_id: impl Into<String>) -> Result<Turn, Error> {
        let request = PromoteQueuedTurnRequest {
            session_id: session_id.into(),
            turn_id: turn_id.into(),
        };
        let method = method!(self.service(), promote_queued_turn);
        present(self.connection.unary(request, method).await?.turn, "turn")
    }

    /// Removes a turn from the queue: its task is canceled.
    ///
    /// # Errors
    ///
    /// As [`promote`](Self::promote).
    pub async fn remove(&self, session_id: impl Into<String>, turn_id: impl Into<String>) -> Result<Turn, Error> {
        let request = RemoveQueuedTurnRequest {
            session_id: session_id.into(),
            turn_id: turn_id.into(),
        };
        let method = method!(self.service(), remove_queued_turn);
        present(self.connection.unary(request, method).await?.turn, "turn")
    }

    /// Replaces the messages of a queued turn by those of the input, whose other fields are ignored.
    ///
    /// # Errors
    ///
    /// As [`promote`](Self::promote).
    pub async fn replace_input(
        &self,
        session_id: impl Into<String>,
        turn_id: impl Into<String>,
        input: impl Into<NewTurn>,
    ) -> Result<Turn, Error> {
        let NewTurn(given) = input.into();
        let request = UpdateQueuedTurnRequest {
            session_id: session_id.into(),
            turn_id: turn_id.into(),
            messages: given.input.unwrap_or_default().messages,
        };
        let method = method!(self.service(), update_queued_turn);
        present(self.connection.unary(request, method).await?.turn, "turn")
    }

    /// Takes a turn and all later ones out of the conversation of their thread, and returns the thread. Active turns
    /// among them are canceled. Nothing is deleted: `rolled_back` marks them. Repeating the call changes nothing.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND), [`TURN_NOT_FOUND`](crate::reason::TURN_NOT_FOUND).
    /// [`INVALID_ARGUMENT`](crate::reason::INVALID_ARGUMENT): the turn waits in the queue.
    pub async fn roll_back(
        &self,
        session_id: impl Into<String>,
        turn_id: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<Thread, Error> {
        let request = RollbackThreadRequest {
            session_id: session_id.into(),
            turn_id: turn_id.into(),
            reason: reason.into(),
        };
        let method = method!(self.service(), rollback_thread);
        present(self.connection.unary(request, method).await?.thread, "thread")
    }

    /// Ends the pauses of the active turns of a thread, and returns what the thread still waits for. A thread continues
    /// by itself after a restart of the agent.
    ///
    /// # Errors
    ///
    /// [`SESSION_NOT_FOUND`](crate::reason::SESSION_NOT_FOUND), [`THREAD_NOT_FOUND`](crate::reason::THREAD_NOT_FOUND).
    pub async fn resume(&self, request: ResumeThreadRequest) -> Result<ResumeThreadResponse, Error> {
        let method = method!(self.service(), resume_thread);
        self.connection.unary(request, method).await
    }

    /// Yields everything that happens in a session after a position (0: from the beginning), in the order of positions:
    /// first the stored events, then new ones. It does not end by itself, and resumes after interruptions as
    /// [`stream`](Self::stream) does.
    pub fn subscribe(&self, session_id: impl Into<String>, after: i64) -> Feed<SessionItem> {
        let source = Items {
            service: self.service(),
            session_id: session_id.into(),
            seen: after,
            references: HashMap::new(),
        };
        Feed::of(source, self.connection.patience)
    }

    /// Yields what [`subscribe`](Self::subscribe) yields as events of the Agent Runtime contract. Sequences ascend,
    /// with gaps. With `stop_at_end` the stream ends after the last event that exists at the time of the call;
    /// otherwise it does not end by itself. It resumes after interruptions as [`stream`](Self::stream) does.
    pub fn runtime_events(&self, request: StreamRuntimeEventsRequest) -> Feed<RuntimeEvent> {
        let service = self.service();
        Feed::of(RuntimeEvents { service, request }, self.connection.patience)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions") // what goes with its calls is secret
    }
}

/// An event of a session, and its position among all events of the session and of its tasks, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionItem {
    /// Where it is.
    pub position: i64,
    /// What has happened.
    pub fact: SessionFact,
}

/// What has happened in a session.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // nearly all of them are events of tasks: a box would be one more allocation for each
pub enum SessionFact {
    /// An event of one of its tasks.
    Task(RunEvent),
    /// An event of the session itself.
    Session(SessionEvent),
}

/// The events of one session.
struct Items {
    service: Service,
    session_id: String,
    /// The last position shown. Positions may be missing: a memory store drops the events of old tasks.
    seen: i64,
    /// By task; of those that have not ended.
    references: HashMap<String, References>,
}

impl Source for Items {
    type Batch = SubscribeSessionResponse;
    type Item = SessionItem;

    async fn open(&mut self) -> Result<Batches<SubscribeSessionResponse>, Status> {
        let request = SubscribeSessionRequest {
            session_id: self.session_id.clone(),
            after_position: self.seen,
        };
        Ok(self.service.subscribe_session(request).await?.into_inner().boxed())
    }

    async fn read(&mut self, batch: SubscribeSessionResponse, news: &mut VecDeque<SessionItem>) -> Result<bool, Error> {
        let before = news.len();
        for segment in batch.segments {
            let own = segment.session_events.into_iter().map(SessionFact::Session);
            let facts = own.chain(segment.events.into_iter().map(SessionFact::Task));
            for (position, fact) in (segment.first_position..).zip(facts) {
                if position > self.seen {
                    self.seen = position;
                    let fact = self.resolve(fact);
                    news.push_back(SessionItem { position, fact });
                }
            }
        }
        Ok(news.len() > before)
    }
}

impl Items {
    fn resolve(&mut self, fact: SessionFact) -> SessionFact {
        let SessionFact::Task(event) = fact else { return fact };
        let task_id = event.task_id.clone();
        let ended = matches!(&event.payload, Some(Payload::TaskStatus(change)) if has_ended(change.new_state()));
        let event = self.references.entry(task_id.clone()).or_default().resolve(event);
        if ended {
            self.references.remove(&task_id);
        }
        SessionFact::Task(event)
    }
}

/// The events of one session in the Agent Runtime contract.
struct RuntimeEvents {
    service: Service,
    /// With the sequence of the last event shown.
    request: StreamRuntimeEventsRequest,
}

impl Source for RuntimeEvents {
    type Batch = StreamRuntimeEventsResponse;
    type Item = RuntimeEvent;

    async fn open(&mut self) -> Result<Batches<StreamRuntimeEventsResponse>, Status> {
        let response = self.service.stream_runtime_events(self.request.clone()).await?;
        Ok(response.into_inner().boxed())
    }

    async fn read(
        &mut self,
        batch: StreamRuntimeEventsResponse,
        news: &mut VecDeque<RuntimeEvent>,
    ) -> Result<bool, Error> {
        let before = news.len();
        for event in batch.events {
            if event.sequence > self.request.after_sequence {
                self.request.after_sequence = event.sequence;
                news.push_back(event);
            }
        }
        Ok(news.len() > before)
    }

    async fn may_end(&mut self) -> Result<bool, Status> {
        Ok(self.request.stop_at_end)
    }
}

fn new_id() -> String {
    Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use crate::v1::SessionSegment;

    fn own(first_position: i64, count: usize) -> SessionSegment {
        SessionSegment {
            first_position,
            session_events: vec![SessionEvent::default(); count],
            ..Default::default()
        }
    }

    async fn positions(items: &mut Items, segments: Vec<SessionSegment>) -> Vec<i64> {
        let mut news = VecDeque::new();
        let batch = SubscribeSessionResponse {
            segments,
            ..Default::default()
        };
        let is_progress = items.read(batch, &mut news).await.unwrap();
        assert_eq!(is_progress, !news.is_empty());
        news.into_iter().map(|item| item.position).collect()
    }

    #[tokio::test]
    async fn no_position_is_shown_twice_and_a_gap_is_no_error() {
        let mut items = Items {
            service: Client::connect("localhost:1").unwrap().sessions().service(),
            session_id: "s".into(),
            seen: 3,
            references: HashMap::new(),
        };
        assert_eq!(positions(&mut items, vec![own(3, 2), own(5, 1)]).await, [4, 5]);
        assert_eq!(positions(&mut items, vec![own(4, 2)]).await, []);
        assert_eq!(positions(&mut items, vec![own(8, 2)]).await, [8, 9]);
    }

    #[test]
    fn every_turn_has_an_id_and_a_clone_is_the_same_turn() {
        let NewTurn(first) = NewTurn::from("hello");
        let NewTurn(second) = NewTurn::from("hello");
        assert_ne!(first.turn_id, second.turn_id);
        let named = NewTurn::text("hello")
            .id("mine")
            .thread("side")
            .when_busy(WhenBusy::Reject);
        let NewTurn(named) = named.clone();
        assert_eq!((named.turn_id.as_str(), named.thread_id.as_str()), ("mine", "side"));
        assert_eq!(named.when_busy(), WhenBusy::Reject);
    }
}
