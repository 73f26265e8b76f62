//! The events of a task, followed through cuts: each once, in order, and none left out.

use futures_util::StreamExt;
use tonic::{Code, Status};

use crate::Error;
use crate::client::Agent;
use crate::feed::{Batches, Source};
use crate::v1::run_event::Payload;
use crate::v1::{RunEvent, StopAt, StreamTaskRequest, SubscribeTaskRequest, TaskState};

/// The events of one task.
pub(crate) struct Events {
    pub(crate) agent: Agent,
    /// What begins the turn to be shown, until its first event has come: nothing but the same request is safe to try
    /// again.
    pub(crate) begin: Option<StreamTaskRequest>,
    pub(crate) task_id: String,
    /// The last sequence shown.
    pub(crate) seen: i64,
    pub(crate) stop_at: StopAt,
    pub(crate) is_complete: bool,
}

impl Source for Events {
    type Batch = Vec<RunEvent>;
    type Item = RunEvent;

    async fn open(&mut self) -> Result<Batches<Vec<RunEvent>>, Status> {
        if let Some(request) = self.begin.clone() {
            let answers = self.agent.stream_task(request).await?.into_inner();
            return Ok(answers.map(|answer| answer.map(|answer| answer.events)).boxed());
        }
        let (task_id, stop_at) = (self.task_id.clone(), self.stop_at.into());
        let request = SubscribeTaskRequest {
            task_id,
            after_sequence: self.seen,
            stop_at,
            deltas: false,
        };
        let answers = self.agent.subscribe_task(request).await?.into_inner();
        Ok(answers.map(|answer| answer.map(|answer| answer.events)).boxed())
    }

    fn news(&mut self, batch: Vec<RunEvent>) -> Result<Vec<RunEvent>, Error> {
        let mut news = Vec::with_capacity(batch.len());
        for event in batch {
            if self.moves_on(&event)? {
                news.push(event);
            }
        }
        Ok(news)
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl Events {
    /// Whether the event is to be shown; an error where one before it is missing.
    fn moves_on(&mut self, event: &RunEvent) -> Result<bool, Error> {
        // A turn begins where the server says: the task may have had others before.
        if self.begin.take().is_none() {
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
        self.seen = event.sequence;
        self.is_complete = event.r#final || self.stop_at == StopAt::Interrupted && waits(event);
        Ok(true)
    }
}

/// Whether the task waits for somebody from here on.
fn waits(event: &RunEvent) -> bool {
    let Some(Payload::TaskStatus(change)) = &event.payload else {
        return false;
    };
    matches!(change.new_state(), TaskState::InputRequired | TaskState::AuthRequired)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::TaskStatusChanged;
    use crate::{Client, v1};

    fn events(begin: Option<StreamTaskRequest>) -> Events {
        let agent = Client::connect("localhost:1").unwrap().agent();
        let stop_at = StopAt::Interrupted;
        Events {
            agent,
            begin,
            task_id: "t".into(),
            seen: 0,
            stop_at,
            is_complete: false,
        }
    }

    fn numbered(sequences: impl IntoIterator<Item = i64>) -> Vec<RunEvent> {
        let event = |sequence| RunEvent {
            task_id: "t".into(),
            sequence,
            ..Default::default()
        };
        sequences.into_iter().map(event).collect()
    }

    fn news(events: &mut Events, sequences: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let news = events.news(numbered(sequences)).unwrap();
        news.iter().map(|event| event.sequence).collect()
    }

    #[tokio::test]
    async fn no_sequence_is_shown_twice() {
        let mut events = events(None);
        assert_eq!(news(&mut events, 1..4), [1, 2, 3]);
        assert_eq!(news(&mut events, 2..6), [4, 5]);
        assert_eq!(events.seen, 5);
    }

    #[tokio::test]
    async fn a_gap_is_an_error() {
        let mut events = events(None);
        assert_eq!(news(&mut events, 1..3), [1, 2]);
        assert_eq!(events.news(numbered([4])).unwrap_err().code(), Code::DataLoss);
    }

    #[tokio::test]
    async fn a_turn_begins_where_the_server_says_and_is_then_subscribed_to() {
        let mut events = events(Some(StreamTaskRequest::default()));
        assert_eq!(news(&mut events, [7, 8]), [7, 8]);
        assert!(events.begin.is_none());
        assert_eq!(events.news(numbered([10])).unwrap_err().code(), Code::DataLoss);
    }

    #[tokio::test]
    async fn the_last_event_and_a_waiting_task_complete_a_turn() {
        let mut events = events(None);
        let change = TaskStatusChanged {
            new_state: TaskState::InputRequired.into(),
            ..Default::default()
        };
        let waiting = RunEvent {
            payload: Some(Payload::TaskStatus(change)),
            ..numbered([1])[0].clone()
        };
        events.news(vec![waiting]).unwrap();
        assert!(events.is_complete());
        events.news(numbered([2])).unwrap();
        assert!(!events.is_complete());
        events
            .news(vec![v1::RunEvent {
                r#final: true,
                ..numbered([3])[0].clone()
            }])
            .unwrap();
        assert!(events.is_complete());
    }
}
