//! Sessions: turns that are submitted once, and streams that resume.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use plgrpc_client::v1::session_service_server::{SessionService, SessionServiceServer};
use plgrpc_client::v1::*;
use plgrpc_client::{Client, Code, NewTurn, SessionFact, Sessions, text_of};
use tokio_stream::{StreamExt, iter};
use tonic::{Request, Response, Status};

use crate::scripted::Batches;
use crate::server::{self, AnyService};

/// An agent whose first answers get lost, and whose streams each send one response and are then cut.
#[derive(Default)]
struct Host {
    lost: Mutex<usize>,
    ids: Mutex<Vec<String>>,
    after: Mutex<Vec<i64>>,
    turns: Mutex<VecDeque<Vec<RunEvent>>>,
    segments: Mutex<VecDeque<Vec<SessionSegment>>>,
    runtime_events: Mutex<VecDeque<Vec<i64>>>,
}

impl Host {
    /// Notes the id of a request. Fails while answers get lost.
    fn note(&self, id: &str) -> Result<(), Status> {
        self.ids.lock().unwrap().push(id.into());
        let mut lost = self.lost.lock().unwrap();
        if *lost > 0 {
            *lost -= 1;
            return Err(Status::unavailable("lost"));
        }
        Ok(())
    }
}

fn cut_after<B: Send + 'static>(response: B) -> Response<Batches<B>> {
    Response::new(Box::pin(iter([Ok(response), Err(Status::unavailable("cut"))])))
}

fn unused<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not here"))
}

#[tonic::async_trait]
impl SessionService for Host {
    type StreamTurnStream = Batches<StreamTurnResponse>;
    type SubscribeSessionStream = Batches<SubscribeSessionResponse>;
    type StreamRuntimeEventsStream = Batches<StreamRuntimeEventsResponse>;

    async fn create_session(
        &self,
        request: Request<CreateSessionRequest>,
    ) -> Result<Response<CreateSessionResponse>, Status> {
        let session_id = request.into_inner().session_id;
        self.note(&session_id)?;
        let session = Some(Session {
            session_id,
            ..Default::default()
        });
        Ok(Response::new(CreateSessionResponse { session }))
    }

    async fn update_session(
        &self,
        _: Request<UpdateSessionRequest>,
    ) -> Result<Response<UpdateSessionResponse>, Status> {
        unused()
    }

    async fn get_session(&self, _: Request<GetSessionRequest>) -> Result<Response<GetSessionResponse>, Status> {
        unused()
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        let is_first = request.into_inner().page_token.is_empty();
        let session = Session {
            session_id: if is_first { "a" } else { "b" }.into(),
            ..Default::default()
        };
        Ok(Response::new(ListSessionsResponse {
            sessions: vec![session],
            next_page_token: if is_first { "more" } else { "" }.into(),
        }))
    }

    async fn start_thread(&self, _: Request<StartThreadRequest>) -> Result<Response<StartThreadResponse>, Status> {
        unused()
    }

    async fn submit_turn(&self, request: Request<SubmitTurnRequest>) -> Result<Response<SubmitTurnResponse>, Status> {
        let turn_id = request.into_inner().turn_id;
        self.note(&turn_id)?;
        let turn = Some(Turn {
            turn_id,
            ..Default::default()
        });
        Ok(Response::new(SubmitTurnResponse { turn }))
    }

    async fn stream_turn(
        &self,
        request: Request<StreamTurnRequest>,
    ) -> Result<Response<Self::StreamTurnStream>, Status> {
        self.after.lock().unwrap().push(request.into_inner().after_sequence);
        let events = self.turns.lock().unwrap().pop_front().unwrap_or_default();
        Ok(cut_after(StreamTurnResponse {
            events,
            ..Default::default()
        }))
    }

    async fn interrupt_turn(
        &self,
        _: Request<InterruptTurnRequest>,
    ) -> Result<Response<InterruptTurnResponse>, Status> {
        unused()
    }

    async fn promote_queued_turn(
        &self,
        _: Request<PromoteQueuedTurnRequest>,
    ) -> Result<Response<PromoteQueuedTurnResponse>, Status> {
        unused()
    }

    async fn remove_queued_turn(
        &self,
        _: Request<RemoveQueuedTurnRequest>,
    ) -> Result<Response<RemoveQueuedTurnResponse>, Status> {
        Err(Status::failed_precondition("it has started"))
    }

    async fn subscribe_session(
        &self,
        request: Request<SubscribeSessionRequest>,
    ) -> Result<Response<Self::SubscribeSessionStream>, Status> {
        self.after.lock().unwrap().push(request.into_inner().after_position);
        let segments = self.segments.lock().unwrap().pop_front().unwrap_or_default();
        Ok(cut_after(SubscribeSessionResponse {
            segments,
            ..Default::default()
        }))
    }

    async fn delete_session(
        &self,
        request: Request<DeleteSessionRequest>,
    ) -> Result<Response<DeleteSessionResponse>, Status> {
        self.note(&request.into_inner().session_id)?;
        Ok(Response::new(DeleteSessionResponse {
            turn_count: 3,
            ..Default::default()
        }))
    }

    async fn update_queued_turn(
        &self,
        request: Request<UpdateQueuedTurnRequest>,
    ) -> Result<Response<UpdateQueuedTurnResponse>, Status> {
        let UpdateQueuedTurnRequest { turn_id, messages, .. } = request.into_inner();
        self.note(&text_of(&messages[0].parts))?;
        let turn = Some(Turn {
            turn_id,
            ..Default::default()
        });
        Ok(Response::new(UpdateQueuedTurnResponse { turn }))
    }

    async fn rollback_thread(
        &self,
        request: Request<RollbackThreadRequest>,
    ) -> Result<Response<RollbackThreadResponse>, Status> {
        let RollbackThreadRequest { turn_id, reason, .. } = request.into_inner();
        self.note(&turn_id)?;
        let thread = Some(Thread {
            title: reason,
            ..Default::default()
        });
        Ok(Response::new(RollbackThreadResponse { thread, turn_count: 1 }))
    }

    async fn resume_thread(
        &self,
        request: Request<ResumeThreadRequest>,
    ) -> Result<Response<ResumeThreadResponse>, Status> {
        self.note(&request.into_inner().thread_id)?;
        Ok(Response::new(ResumeThreadResponse {
            resumed: vec![Turn::default()],
            ..Default::default()
        }))
    }

    /// The first two streams are cut, and the others end.
    async fn stream_runtime_events(
        &self,
        request: Request<StreamRuntimeEventsRequest>,
    ) -> Result<Response<Self::StreamRuntimeEventsStream>, Status> {
        let mut after = self.after.lock().unwrap();
        after.push(request.into_inner().after_sequence);
        let sequences = self.runtime_events.lock().unwrap().pop_front().unwrap_or_default();
        let event = |sequence| RuntimeEvent {
            sequence,
            ..Default::default()
        };
        let response = StreamRuntimeEventsResponse {
            events: sequences.into_iter().map(event).collect(),
        };
        if after.len() < 3 {
            return Ok(cut_after(response));
        }
        Ok(Response::new(Box::pin(iter([Ok(response)]))))
    }
}

async fn serve(host: Host) -> (Arc<Host>, Sessions) {
    let host = Arc::new(host);
    let url = server::start(AnyService::new(SessionServiceServer::from_arc(host.clone()))).await;
    (host, Client::connect(url).unwrap().sessions())
}

fn events(sequences: &[i64]) -> Vec<RunEvent> {
    let event = |sequence: &i64| RunEvent {
        task_id: "t".into(),
        sequence: *sequence,
        last: *sequence == 9,
        ..Default::default()
    };
    sequences.iter().map(event).collect()
}

fn own(first_position: i64, count: usize) -> SessionSegment {
    SessionSegment {
        first_position,
        session_events: vec![SessionEvent::default(); count],
        ..Default::default()
    }
}

fn of_task(first_position: i64, sequences: &[i64]) -> SessionSegment {
    SessionSegment {
        first_position,
        events: events(sequences),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_submitted_turn_whose_answers_get_lost_is_one_turn() {
    let (host, sessions) = serve(Host {
        lost: Mutex::new(2),
        ..Default::default()
    })
    .await;
    let turn = sessions.submit("s", "hello").await.unwrap();
    assert_eq!(*host.ids.lock().unwrap(), [turn.turn_id.as_str(); 3]);
    let named = sessions.submit("s", NewTurn::text("hello").id("mine")).await.unwrap();
    assert_eq!(named.turn_id, "mine");
}

#[tokio::test]
async fn a_new_session_has_its_id_in_every_attempt() {
    let (host, sessions) = serve(Host {
        lost: Mutex::new(1),
        ..Default::default()
    })
    .await;
    let session = sessions.create(CreateSessionRequest::default()).await.unwrap();
    assert_eq!(*host.ids.lock().unwrap(), [session.session_id.as_str(); 2]);
    assert!(!session.session_id.is_empty());
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let (_, sessions) = serve(Host::default()).await;
    let listed: Vec<_> = sessions.list(ListSessionsRequest::default()).collect().await;
    let ids: Vec<_> = listed.into_iter().map(|session| session.unwrap().session_id).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test]
async fn a_turn_that_has_left_the_queue_is_a_typed_error() {
    let (_, sessions) = serve(Host::default()).await;
    let error = sessions.remove("s", "t").await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn the_stream_of_a_turn_resumes_after_its_last_event() {
    let turns = [events(&[]), events(&[4, 5]), events(&[5, 6, 7]), events(&[8, 9])];
    let (host, sessions) = serve(Host {
        turns: Mutex::new(turns.into()),
        ..Default::default()
    })
    .await;
    let mut stream = sessions.stream("s", "t");
    let mut found = Vec::new();
    while let Some(event) = stream.try_next().await.unwrap() {
        found.push(event.sequence);
    }
    assert_eq!(found, [4, 5, 6, 7, 8, 9]);
    assert_eq!(*host.after.lock().unwrap(), [0, 0, 5, 7]);
}

#[tokio::test]
async fn the_stream_of_a_session_resumes_after_its_last_position() {
    let segments = [
        vec![],
        vec![own(4, 2), of_task(6, &[1])],
        vec![of_task(6, &[1, 2])],
        vec![of_task(8, &[3]), own(9, 1)],
    ];
    let (host, sessions) = serve(Host {
        segments: Mutex::new(segments.into()),
        ..Default::default()
    })
    .await;
    let mut stream = sessions.subscribe("s", 3);
    let mut found = Vec::new();
    while found.len() < 6 {
        let item = stream.try_next().await.unwrap().unwrap();
        found.push(match item.fact {
            SessionFact::Task(event) => (item.position, event.sequence),
            SessionFact::Session(_) => (item.position, 0),
        });
    }
    assert_eq!(found, [(4, 0), (5, 0), (6, 1), (7, 2), (8, 3), (9, 0)]);
    assert_eq!(*host.after.lock().unwrap(), [3, 3, 6, 7]);
}

#[tokio::test]
async fn calls_about_threads_send_what_they_change_and_return_it() {
    let (host, sessions) = serve(Host::default()).await;
    let replaced = sessions.replace_input("s", "a", "another").await.unwrap();
    assert_eq!(replaced.turn_id, "a");
    assert_eq!(sessions.roll_back("s", "b", "wrong").await.unwrap().title, "wrong");
    let side = ResumeThreadRequest {
        session_id: "s".into(),
        thread_id: "side".into(),
        ..Default::default()
    };
    assert_eq!(sessions.resume(side).await.unwrap().resumed.len(), 1);
    assert_eq!(sessions.delete("s").await.unwrap().turn_count, 3);
    assert_eq!(*host.ids.lock().unwrap(), ["another", "b", "side", "s"]);
}

#[tokio::test]
async fn the_stream_of_runtime_events_resumes_after_its_last_sequence() {
    let batches = [vec![], vec![16, 17], vec![17, 32], vec![48]]; // the third stream ends too early
    let (host, sessions) = serve(Host {
        runtime_events: Mutex::new(batches.into()),
        ..Default::default()
    })
    .await;
    let mut events = sessions.runtime_events(StreamRuntimeEventsRequest {
        session_id: "s".into(),
        after_sequence: 3,
        stop_at_end: false,
    });
    let mut found = Vec::new();
    while found.len() < 4 {
        found.push(events.try_next().await.unwrap().unwrap().sequence);
    }
    assert_eq!(found, [16, 17, 32, 48]);
    assert_eq!(*host.after.lock().unwrap(), [3, 3, 17, 32]);
}

#[tokio::test]
async fn the_stream_of_runtime_events_ends_where_it_was_asked_to() {
    let batches = [vec![16], vec![], vec![32]];
    let (host, sessions) = serve(Host {
        runtime_events: Mutex::new(batches.into()),
        ..Default::default()
    })
    .await;
    let mut events = sessions.runtime_events(StreamRuntimeEventsRequest {
        session_id: "s".into(),
        after_sequence: 0,
        stop_at_end: true,
    });
    let mut found = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        found.push(event.sequence);
    }
    assert_eq!(found, [16, 32]);
    assert_eq!(*host.after.lock().unwrap(), [0, 16, 16]);
}
