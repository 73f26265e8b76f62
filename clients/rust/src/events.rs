//! The events of a task, resumed after interruptions: each once, in order, without a gap.

use std::collections::{HashMap, VecDeque};

use futures_util::StreamExt;
use tonic::{Code, Status};

use crate::client::Agent;
use crate::feed::{Batches, Source};
use crate::sessions::Service;
use crate::v1::delta::Piece;
use crate::v1::run_event::Payload;
use crate::v1::{
    Delta, DeltaMode, GetTaskRequest, RunEvent, StopAt, StreamTaskRequest, StreamTurnRequest, SubscribeTaskRequest,
    TaskState, TaskView,
};
use crate::{Error, References};

/// What a task shows while it runs.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // nearly all of them are events: a box would be one more allocation for each
pub enum Update {
    /// A fact of its log.
    Event(RunEvent),
    /// A piece of the text that a model is producing. No piece comes twice, even after an interruption. If a model
    /// call is retried, its text starts again with `offset_bytes` 0. Pieces may be missing; the finished text is in an
    /// event.
    Delta(Delta),
}

impl Update {
    pub(crate) fn into_event(self) -> Option<RunEvent> {
        match self {
            Self::Event(event) => Some(event),
            Self::Delta(_) => None,
        }
    }
}

/// The events of one task.
pub(crate) struct Events {
    agent: Agent,
    /// The request that begins the turn, until its first event has arrived: only the same request can be retried
    /// safely.
    begin: Option<StreamTaskRequest>,
    /// The turn of a session; the same request resumes it.
    turn: Option<(Service, StreamTurnRequest)>,
    /// Whether `seen` is the position before the next event: the server chooses where a turn begins.
    has_position: bool,
    task_id: String,
    /// The last sequence shown.
    seen: i64,
    stop_at: StopAt,
    deltas: DeltaMode,
    references: References,
    texts: TextsRead,
    has_shown: bool,
    /// Whether the last event shown is one with which the stream can end.
    is_settled: bool,
}

type Batch = (Vec<Delta>, Vec<RunEvent>);

impl Source for Events {
    type Batch = Batch;
    type Item = Update;

    async fn open(&mut self) -> Result<Batches<Batch>, Status> {
        self.texts.reopen();
        if let Some(request) = self.begin.clone() {
            let answers = self.agent.stream_task(request).await?.into_inner();
            return Ok(answers
                .map(|answer| answer.map(|answer| (answer.deltas, answer.events)))
                .boxed());
        }
        if let Some((service, turn)) = &mut self.turn {
            let request = StreamTurnRequest {
                after_sequence: self.seen,
                deltas: self.deltas.into(),
                ..turn.clone()
            };
            let answers = service.stream_turn(request).await?.into_inner();
            return Ok(answers
                .map(|answer| answer.map(|answer| (answer.deltas, answer.events)))
                .boxed());
        }
        let request = SubscribeTaskRequest {
            task_id: self.task_id.clone(),
            after_sequence: self.seen,
            stop_at: self.stop_at.into(),
            deltas: self.deltas.into(),
        };
        let answers = self.agent.subscribe_task(request).await?.into_inner();
        Ok(answers
            .map(|answer| answer.map(|answer| (answer.deltas, answer.events)))
            .boxed())
    }

    async fn read(&mut self, (deltas, events): Batch, news: &mut VecDeque<Update>) -> Result<bool, Error> {
        let rest = deltas.into_iter().filter_map(|delta| self.texts.rest(delta));
        news.extend(rest.map(Update::Delta));
        let mut is_progress = false;
        for event in events {
            if self.moves_on(&event)? {
                is_progress = true;
                self.texts.pass(&event);
                news.push_back(Update::Event(self.references.resolve(event)));
            }
        }
        Ok(is_progress)
    }

    /// A turn is complete with its last event. A task that has ended may have been retried: only the agent can end its
    /// stream.
    fn is_complete(&self) -> bool {
        self.is_settled && self.stop_at == StopAt::Interrupted
    }

    async fn may_end(&mut self) -> Result<bool, Status> {
        if self.is_settled || self.stop_at == StopAt::Current {
            return Ok(true);
        }
        if !self.has_position || self.has_shown {
            return Ok(false);
        }
        // The subscription began after the last event of a task, so it yields no event.
        let request = GetTaskRequest {
            task_id: self.task_id.clone(),
            view: TaskView::Header.into(),
            ..Default::default()
        };
        let task = self
            .agent
            .get_task(request)
            .await?
            .into_inner()
            .task
            .unwrap_or_default();
        Ok(has_ended(task.state()) && task.sequence <= self.seen)
    }

    fn task_id(&self) -> &str {
        &self.task_id
    }
}

impl Events {
    /// Those of the turn that a request begins.
    pub(crate) fn of_turn(agent: Agent, task_id: String, request: StreamTaskRequest) -> Self {
        Self {
            deltas: request.deltas(),
            begin: Some(request),
            has_position: false,
            ..Self::after(agent, task_id, 0, StopAt::Interrupted)
        }
    }

    /// Those of a turn of a session.
    pub(crate) fn of_session(agent: Agent, service: Service, request: StreamTurnRequest) -> Self {
        Self {
            turn: Some((service, request)),
            has_position: false,
            ..Self::after(agent, String::new(), 0, StopAt::Interrupted)
        }
    }

    /// Those that come after a sequence.
    pub(crate) fn after(agent: Agent, task_id: String, seen: i64, stop_at: StopAt) -> Self {
        Self {
            agent,
            begin: None,
            turn: None,
            has_position: true,
            task_id,
            seen,
            stop_at,
            deltas: DeltaMode::None,
            references: References::default(),
            texts: TextsRead::default(),
            has_shown: false,
            is_settled: false,
        }
    }

    /// Shows text, too, while it is produced.
    pub(crate) fn with_deltas(mut self) -> Self {
        self.deltas = DeltaMode::All;
        self
    }

    /// Whether the event is new; an error if one before it is missing.
    fn moves_on(&mut self, event: &RunEvent) -> Result<bool, Error> {
        // The server chooses where a turn begins: the task may have had others before.
        self.begin = None;
        if self.has_position {
            if event.sequence <= self.seen {
                return Ok(false);
            }
            if event.sequence != self.seen + 1 {
                let gap = format!(
                    "task {}: event {} came after {}",
                    self.task_id, event.sequence, self.seen
                );
                return Err(Error::new(Code::DataLoss, gap));
            }
        }
        self.task_id.clone_from(&event.task_id);
        (self.has_position, self.has_shown) = (true, true);
        self.seen = event.sequence;
        self.is_settled = event.last || self.stop_at == StopAt::Interrupted && waits(event);
        Ok(true)
    }
}

/// What the reader has of the texts that are being produced, by call and block. A stream that is opened again sends
/// each of them from its beginning.
#[derive(Default)]
struct TextsRead(HashMap<String, HashMap<i32, TextRead>>);

#[derive(Default)]
struct TextRead {
    /// How many bytes the reader has.
    shown: i64,
    /// Whether the current stream has sent some of it.
    is_sent: bool,
}

impl TextsRead {
    /// A stream is opened.
    fn reopen(&mut self) {
        for text in self.0.values_mut().flat_map(HashMap::values_mut) {
            text.is_sent = false;
        }
    }

    /// When a model call is retried, or has ended, its earlier pieces are void.
    fn pass(&mut self, event: &RunEvent) {
        match &event.payload {
            Some(Payload::LlmCallStarted(call)) => self.0.remove(&call.call_id),
            Some(Payload::LlmCallCompleted(call)) => self.0.remove(&call.call_id),
            _ => None,
        };
    }

    /// What the reader does not have of a piece; none where that is nothing, or the piece is of a later version.
    fn rest(&mut self, mut delta: Delta) -> Option<Delta> {
        use Piece::{Output, Reasoning, Text, ToolArguments};
        let (Text(piece) | Reasoning(piece) | ToolArguments(piece) | Output(piece)) = delta.piece.as_mut()?;
        let blocks = self.0.entry(delta.call_id.clone()).or_default();
        let text = blocks.entry(delta.block).or_default();
        if text.is_sent && delta.offset_bytes == 0 {
            text.shown = 0; // it begins again in the middle of a stream
        }
        text.is_sent = true;
        let length = i64::try_from(piece.len()).ok()?;
        let had = text.shown - delta.offset_bytes;
        if had >= length {
            return None;
        }
        (text.shown, delta.offset_bytes) = (delta.offset_bytes + length, delta.offset_bytes + had.max(0));
        if let Ok(had @ 1..) = usize::try_from(had) {
            *piece = String::from_utf8_lossy(&piece.as_bytes()[had..]).into_owned();
        }
        Some(delta)
    }
}

/// Whether the task waits for input after this event.
fn waits(event: &RunEvent) -> bool {
    let Some(Payload::TaskStatus(change)) = &event.payload else {
        return false;
    };
    matches!(change.new_state(), TaskState::InputRequired | TaskState::AuthRequired)
}

pub(crate) fn has_ended(state: TaskState) -> bool {
    use TaskState::{Canceled, Completed, Failed, Rejected};
    matches!(state, Completed | Canceled | Failed | Rejected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use crate::v1::{LlmCallStarted, TaskStatusChanged};

    fn agent() -> Agent {
        Client::connect("localhost:1").unwrap().agent()
    }

    fn events() -> Events {
        Events::after(agent(), "t".into(), 0, StopAt::Interrupted)
    }

    fn numbered(sequences: impl IntoIterator<Item = i64>) -> Vec<RunEvent> {
        let event = |sequence| RunEvent {
            task_id: "t".into(),
            sequence,
            ..Default::default()
        };
        sequences.into_iter().map(event).collect()
    }

    fn piece(offset_bytes: i64, text: &str) -> Delta {
        Delta {
            call_id: "a".into(),
            offset_bytes,
            piece: Some(Piece::Text(text.into())),
            ..Default::default()
        }
    }

    #[test]
    fn no_piece_of_a_text_comes_twice_unless_its_call_begins_anew() {
        let mut texts = TextsRead::default();
        let mut shown = Vec::new();
        let mut show = |texts: &mut TextsRead, offset, text| {
            if let Some(rest) = texts.rest(piece(offset, text)) {
                let Some(Piece::Text(text)) = rest.piece else { panic!() };
                shown.push((rest.offset_bytes, text));
            }
        };
        show(&mut texts, 0, "Grüße ");
        show(&mut texts, 8, "an ");
        texts.reopen();
        show(&mut texts, 0, "Grüße an alle");
        show(&mut texts, 15, "!");
        let call = LlmCallStarted {
            call_id: "a".into(),
            ..Default::default()
        };
        texts.pass(&RunEvent {
            payload: Some(Payload::LlmCallStarted(call)),
            ..Default::default()
        });
        show(&mut texts, 0, "Grüße");
        show(&mut texts, 7, "!");
        texts.reopen();
        show(&mut texts, 0, "Grüße!");
        show(&mut texts, 0, "Hallo");
        assert_eq!(
            shown.iter().map(|(at, text)| (*at, &**text)).collect::<Vec<_>>(),
            [
                (0, "Grüße "),
                (8, "an "),
                (11, "alle"),
                (15, "!"),
                (0, "Grüße"),
                (7, "!"),
                (0, "Hallo")
            ]
        );
        assert_eq!(texts.rest(Delta::default()), None); // of a later version
    }

    /// Sequences of what is new.
    async fn news(events: &mut Events, batch: Vec<RunEvent>) -> Result<Vec<i64>, Error> {
        let mut news = VecDeque::new();
        let is_progress = events.read((Vec::new(), batch), &mut news).await?;
        assert_eq!(is_progress, !news.is_empty());
        Ok(news
            .into_iter()
            .filter_map(Update::into_event)
            .map(|event| event.sequence)
            .collect())
    }

    #[tokio::test]
    async fn no_sequence_is_shown_twice() {
        let mut events = events();
        assert_eq!(news(&mut events, numbered(1..4)).await.unwrap(), [1, 2, 3]);
        assert_eq!(news(&mut events, numbered(2..6)).await.unwrap(), [4, 5]);
        assert_eq!(news(&mut events, numbered(1..6)).await.unwrap(), []);
        assert_eq!(events.seen, 5);
    }

    #[tokio::test]
    async fn a_gap_is_an_error() {
        let mut events = events();
        assert_eq!(news(&mut events, numbered(1..3)).await.unwrap(), [1, 2]);
        let error = news(&mut events, numbered([4])).await.unwrap_err();
        assert_eq!(error.code(), Code::DataLoss);
    }

    #[tokio::test]
    async fn a_turn_begins_where_the_server_says_and_is_then_subscribed_to() {
        let mut events = Events::of_turn(agent(), "t".into(), StreamTaskRequest::default());
        assert_eq!(news(&mut events, numbered([7, 8])).await.unwrap(), [7, 8]);
        assert!(events.begin.is_none());
        let error = news(&mut events, numbered([10])).await.unwrap_err();
        assert_eq!(error.code(), Code::DataLoss);
    }

    #[tokio::test]
    async fn deltas_are_shown_and_are_no_progress() {
        let mut events = events().with_deltas();
        let delta = Delta {
            piece: Some(crate::v1::delta::Piece::Text("He".into())),
            ..Default::default()
        };
        let mut news = VecDeque::new();
        assert!(!events.read((vec![delta.clone()], Vec::new()), &mut news).await.unwrap());
        assert_eq!(news, [Update::Delta(delta)]);
    }

    #[tokio::test]
    async fn the_last_event_and_a_waiting_task_complete_a_turn() {
        let mut events = events();
        let change = TaskStatusChanged {
            new_state: TaskState::InputRequired.into(),
            ..Default::default()
        };
        let mut waiting = numbered([1]);
        waiting[0].payload = Some(Payload::TaskStatus(change));
        news(&mut events, waiting).await.unwrap();
        assert!(events.is_complete());
        news(&mut events, numbered([2])).await.unwrap();
        assert!(!events.is_complete());
        let mut last = numbered([3]);
        last[0].last = true;
        news(&mut events, last).await.unwrap();
        assert!(events.is_complete());
    }

    #[tokio::test]
    async fn only_the_agent_ends_the_stream_of_a_whole_task() {
        let mut events = Events::after(agent(), "t".into(), 0, StopAt::Terminal);
        let mut last = numbered([1]);
        last[0].last = true;
        news(&mut events, last).await.unwrap();
        assert!(!events.is_complete());
        assert!(events.may_end().await.unwrap());
        events.stop_at = StopAt::Unspecified;
        assert!(!events.is_complete());
        news(&mut events, numbered([2])).await.unwrap(); // of a retry
        assert!(!events.may_end().await.unwrap());
    }
}
