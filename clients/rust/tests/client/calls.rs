//! What the client sends, and what it makes of the answers, cuts included.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plgrpc_client::tonic::{Request, service::InterceptorLayer};
use plgrpc_client::transport::Endpoint;
use plgrpc_client::v1::*;
use plgrpc_client::{Client, Code, Submission, Update, reason};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_stream::{StreamExt, iter, pending};
use tonic::Status;

use crate::scripted::{Asked, Batches, Script, serve};

const SHORT: Duration = Duration::from_millis(300);

fn event(sequence: i64, last: i64) -> RunEvent {
    RunEvent {
        task_id: "t".into(),
        sequence,
        last: sequence == last,
        ..Default::default()
    }
}

/// A stream that shows these events, and then ends without an error.
fn begun(sequences: impl IntoIterator<Item = i64>, last: i64) -> Batches<StreamTaskResponse> {
    let events = sequences.into_iter().map(|sequence| event(sequence, last)).collect();
    let deltas = Vec::new();
    let position = None;
    Box::pin(iter([Ok(StreamTaskResponse {
        events,
        deltas,
        position,
    })]))
}

fn resumed(sequences: impl IntoIterator<Item = i64>, last: i64) -> Batches<SubscribeTaskResponse> {
    let events = sequences.into_iter().map(|sequence| event(sequence, last)).collect();
    let deltas = Vec::new();
    let position = Some(WatchPosition {
        caught_up: true, // which is no progress
        ..Default::default()
    });
    Box::pin(iter([Ok(SubscribeTaskResponse {
        events,
        deltas,
        position,
    })]))
}

fn cut<B: Send + 'static>(code: Code) -> Batches<B> {
    Box::pin(iter([Err(Status::new(code, "cut"))]))
}

fn task(id: &str, state: TaskState, sequence: i64) -> Task {
    Task {
        id: id.into(),
        state: state.into(),
        sequence,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_gap_is_an_error_after_what_came_before_it() {
    let place = serve(Script {
        subscribed: [resumed([1, 2, 4], 4)].into(),
        ..Default::default()
    })
    .await;
    let mut events = Client::connect(&place.url).unwrap().subscribe("t", 0, StopAt::Terminal);
    for sequence in [1, 2] {
        assert_eq!(events.try_next().await.unwrap().unwrap().sequence, sequence);
    }
    let error = events.try_next().await.unwrap_err();
    assert_eq!((error.code(), error.task_id()), (Code::DataLoss, Some("t")));
}

#[tokio::test]
async fn a_subscription_shows_the_retry_that_follows_an_end() {
    let log: Batches<SubscribeTaskResponse> = Box::pin(resumed(1..3, 2).chain(resumed(3..5, 4)));
    let place = serve(Script {
        subscribed: [log].into(),
        ..Default::default()
    })
    .await;
    let mut events = Client::connect(&place.url).unwrap().subscribe("t", 0, StopAt::Terminal);
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        seen.push(event.sequence);
    }
    assert_eq!(seen, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_call_that_was_cut_is_repeated_as_it_was() {
    let cuts = [Code::Unavailable, Code::Internal, Code::Unknown, Code::Cancelled];
    let mut sent: Vec<_> = cuts.iter().map(|code| Err(Status::new(*code, "cut"))).collect();
    sent.push(Ok(task("t", TaskState::Completed, 4)));
    let mut place = serve(Script {
        sent: sent.into(),
        ..Default::default()
    })
    .await;
    let client = Client::connect(&place.url).unwrap();
    client.send("Hello").await.unwrap();
    let Asked::Send(first) = place.next().await else {
        panic!()
    };
    assert!(!first.request_id.is_empty() && !first.input.as_ref().unwrap().task_id.is_empty());
    for _ in cuts {
        assert!(matches!(place.next().await, Asked::Send(again) if again == first));
    }
}

#[tokio::test]
async fn a_stream_that_ends_too_early_goes_on_and_one_that_is_cut_at_once_is_begun_again() {
    let mut place = serve(Script {
        streamed: [cut(Code::Cancelled), begun(1..4, 6)].into(),
        subscribed: [resumed(4..6, 6), cut(Code::Internal), resumed(5..7, 6)].into(),
        ..Default::default()
    })
    .await;
    let events = Client::connect(&place.url).unwrap().stream("count");
    let seen: Vec<_> = events.map(|event| event.unwrap().sequence).collect().await;
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    let Asked::Stream(first) = place.next().await else {
        panic!()
    };
    assert!(matches!(place.next().await, Asked::Stream(again) if again == first));
    for wanted in [3, 5, 5] {
        assert!(matches!(place.next().await, Asked::Subscribe(asked) if asked.after_sequence == wanted));
    }
}

#[tokio::test]
async fn a_stream_that_gets_no_further_is_unavailable_and_names_its_task() {
    let endless = (0..99).map(|_| resumed([], 6)).collect();
    let place = serve(Script {
        streamed: [begun(1..4, 6)].into(),
        subscribed: endless,
        ..Default::default()
    })
    .await;
    let client = Client::builder(&place.url).patience(SHORT).connect().unwrap();
    let (mut events, began) = (client.stream("count"), Instant::now());
    while events.try_next().await.is_ok_and(|event| event.unwrap().sequence < 3) {}
    let error = events.try_next().await.unwrap_err();
    assert_eq!((error.code(), error.task_id()), (Code::Unavailable, Some("t")));
    assert!(began.elapsed() >= SHORT);
    assert_eq!(events.try_next().await.unwrap(), None);
}

#[tokio::test]
async fn without_patience_nothing_is_tried_again() {
    let mut place = serve(Script {
        sent: [Err(Status::unavailable("cut"))].into(),
        ..Default::default()
    })
    .await;
    let client = Client::builder(&place.url).patience(Duration::ZERO).connect().unwrap();
    assert_eq!(client.send("Hello").await.unwrap_err().message(), "cut");
    place.next().await;
    assert!(place.asked.try_recv().is_err());
}

#[tokio::test]
async fn a_subscription_behind_the_last_event_ends() {
    let mut place = serve(Script {
        subscribed: [resumed([], 6), resumed([], 6), resumed([], 6)].into(),
        got: [
            Ok(task("t", TaskState::Completed, 6)),
            Ok(task("t", TaskState::Working, 6)),
        ]
        .into(),
        ..Default::default()
    })
    .await;
    let client = Client::builder(&place.url).patience(Duration::ZERO).connect().unwrap();
    let mut nothing = client.subscribe("t", 6, StopAt::Terminal);
    assert_eq!(nothing.try_next().await.unwrap(), None);
    assert!(matches!(place.next().await, Asked::Subscribe(_)));
    assert!(matches!(place.next().await, Asked::Get(asked) if asked.view() == TaskView::Header));
    // One of a task that works was cut.
    let mut cut = client.subscribe("t", 6, StopAt::Terminal);
    assert_eq!(cut.try_next().await.unwrap_err().code(), Code::Unavailable);
    // What is stored is shown, and nothing is waited for.
    let mut stored = client.subscribe("t", 6, StopAt::Current);
    assert_eq!(stored.try_next().await.unwrap(), None);
}

#[tokio::test]
async fn a_position_that_the_log_no_longer_has_is_an_answer() {
    let mut place = serve(Script {
        subscribed: [cut(Code::OutOfRange)].into(),
        ..Default::default()
    })
    .await;
    let mut events = Client::connect(&place.url).unwrap().subscribe("t", 3, StopAt::Terminal);
    let answered = timeout(Duration::from_secs(10), events.try_next()).await.unwrap();
    assert_eq!(answered.unwrap_err().code(), Code::OutOfRange);
    assert!(matches!(place.next().await, Asked::Subscribe(asked) if asked.after_sequence == 3));
    assert!(place.asked.try_recv().is_err());
}

#[tokio::test]
async fn a_server_that_says_nothing_at_all_is_given_up() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", socket.local_addr().unwrap());
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok(connection) = socket.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            taken.push(connection);
        }
    });
    // The first attempt lasts longer than a stream that counts as working.
    let channel = Endpoint::from_shared(url.replace("grpc", "http"))
        .unwrap()
        .http2_keep_alive_interval(Duration::from_millis(600))
        .keep_alive_timeout(Duration::from_millis(500))
        .connect_lazy();
    let patience = Duration::from_secs(1);
    let client = Client::builder(url)
        .channel(channel)
        .patience(patience)
        .connect()
        .unwrap();
    let mut events = client.stream("Hello");
    let error = timeout(Duration::from_secs(10), events.try_next()).await;
    assert_eq!(error.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

/// Tells when it is dropped.
struct Told(Option<oneshot::Sender<()>>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[tokio::test]
async fn dropping_a_feed_ends_the_call() {
    let (sender, dropped) = oneshot::channel();
    let told = Told(Some(sender));
    let open = begun(1..2, 6).chain(pending()).map(move |batch| {
        let _ = &told;
        batch
    });
    let place = serve(Script {
        streamed: [Box::pin(open) as Batches<_>].into(),
        ..Default::default()
    })
    .await;
    let mut events = Client::connect(&place.url).unwrap().stream("count");
    events.try_next().await.unwrap();
    drop(events);
    timeout(Duration::from_secs(10), dropped).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_send_that_came_too_late_names_its_task() {
    let place = serve(Script::default()).await;
    let hasty = Client::connect(&place.url).unwrap().with_timeout(SHORT);
    let submission = Submission::text("Hello");
    let task_id = submission.task_id().to_owned();
    let error = hasty.send(submission).await.unwrap_err();
    assert_eq!(error.reason(), reason::DEADLINE_EXCEEDED);
    assert_eq!(error.task_id(), Some(task_id.as_str()));
    assert!(error.to_string().contains(&task_id), "{error}");
}

#[tokio::test]
async fn submitting_returns_at_once_and_views_are_asked_for() {
    let mut place = serve(Script {
        sent: [Ok(task("t", TaskState::Submitted, 1))].into(),
        got: [Ok(task("t", TaskState::Working, 2))].into(),
        ..Default::default()
    })
    .await;
    let client = Client::connect(&place.url).unwrap();
    let submission = Submission::text("Hello").view(TaskView::Header);
    assert_eq!(client.submit(submission).await.unwrap().state(), TaskState::Submitted);
    client.get_view("t", TaskView::Turn).await.unwrap();
    let Asked::Send(sent) = place.next().await else {
        panic!()
    };
    assert_eq!(sent.wait_for(), WaitFor::Accepted);
    assert_eq!(sent.view(), TaskView::Header);
    assert!(matches!(place.next().await, Asked::Get(asked) if asked.view() == TaskView::Turn));
    client.cancel("t", "enough").await.unwrap();
    assert!(matches!(place.next().await, Asked::Cancel(asked) if asked.reason == "enough"));
}

#[tokio::test]
async fn a_task_is_continued_only_where_it_exists() {
    let mut place = serve(Script {
        sent: [Ok(task("t", TaskState::InputRequired, 4)), Ok(Task::default())].into(),
        ..Default::default()
    })
    .await;
    let client = Client::connect(&place.url).unwrap();
    let asked = client.send("Book a room").await.unwrap();
    let answer = Submission::text("With a view")
        .continuing(asked.id)
        .expected_sequence(asked.sequence);
    client.send(answer).await.unwrap();
    place.next().await;
    let Asked::Send(sent) = place.next().await else {
        panic!()
    };
    let input = sent.input.unwrap();
    assert_eq!(
        (input.task_id.as_str(), input.target(), input.expected_sequence),
        ("t", TaskTarget::Continue, 4)
    );
}

#[tokio::test]
async fn deltas_come_beside_the_events() {
    let delta = Delta {
        piece: Some(delta::Piece::Text("He".into())),
        ..Default::default()
    };
    let live = StreamTaskResponse {
        deltas: vec![delta.clone()],
        ..Default::default()
    };
    let open = iter([Ok(live)]).chain(begun(1..2, 9));
    let mut place = serve(Script {
        streamed: [Box::pin(open) as Batches<_>].into(),
        subscribed: [resumed([2], 2)].into(),
        ..Default::default()
    })
    .await;
    let updates = Client::connect(&place.url).unwrap().stream_with_deltas("Hello");
    let updates: Vec<_> = updates.map(Result::unwrap).collect().await;
    let events = [event(1, 2), event(2, 2)].map(Update::Event);
    assert_eq!(updates[0], Update::Delta(delta));
    assert_eq!(updates[1..], events);
    assert!(matches!(place.next().await, Asked::Stream(asked) if asked.deltas() == DeltaMode::All));
    assert!(matches!(place.next().await, Asked::Subscribe(asked) if asked.deltas() == DeltaMode::All));
}

fn approval(id: &str, state: ApprovalState) -> Approval {
    Approval {
        approval_id: id.into(),
        etag: "e".into(),
        task_id: "t".into(),
        state: state.into(),
        ..Default::default()
    }
}

/// What a watch shows, batch by batch: approvals, the revision that they lead to, and whether a snapshot begins.
fn watch<const N: usize>(batches: [(Vec<Approval>, i64, bool); N]) -> Batches<WatchApprovalsResponse> {
    let batches = batches.map(|(approvals, revision, reset)| {
        let position = Some(WatchPosition {
            revision,
            reset,
            ..Default::default()
        });
        Ok(WatchApprovalsResponse { approvals, position })
    });
    Box::pin(iter(batches)) // ends, which is a cut
}

#[tokio::test]
async fn a_watch_of_approvals_goes_on_at_its_position_and_shows_each_change_once() {
    use ApprovalState::{Approved, Denied, Pending};
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|id| approval(id, Pending));
    let (answered, denied) = (approval("c", Approved), approval("a", Denied));
    let mut place = serve(Script {
        watched: [
            watch([(vec![a.clone(), b.clone()], 0, true)]), // cut within the snapshot: b is answered meanwhile
            watch([(vec![a.clone()], 0, true), (vec![c.clone()], 10, false)]),
            watch([(vec![answered.clone()], 13, false), (vec![], 15, false)]),
            watch([(vec![a.clone(), d.clone()], 3, true), (vec![denied.clone()], 4, false)]), // another life
        ]
        .into(),
        ..Default::default()
    })
    .await;
    let watched = Client::connect(&place.url).unwrap().watch_approvals("t");
    let all = watched.take(5).map(Result::unwrap).collect();
    let shown: Vec<_> = timeout(Duration::from_secs(10), all).await.unwrap();
    assert_eq!(shown, [a, c, answered, d, denied]);
    for after in [0, 0, 10, 15] {
        let Asked::WatchApprovals(asked) = place.next().await else {
            panic!()
        };
        assert_eq!((asked.task_id.as_str(), asked.after_revision), ("t", after));
    }
}

#[tokio::test]
async fn an_approval_may_change_the_arguments() {
    let mut place = serve(Script::default()).await;
    let client = Client::connect(&place.url).unwrap();
    let asked = approval("a", ApprovalState::Pending);
    client
        .approve_edited(&asked, r#"{"nights": 2}"#, "fewer")
        .await
        .unwrap();
    client.respond(&asked, false, "no").await.unwrap();
    let nights = payload::Value::Json(r#"{"nights": 2}"#.into());
    let mut request_ids = HashSet::new();
    for (verdict, arguments) in [(ApprovalVerdict::Approve, Some(nights)), (ApprovalVerdict::Deny, None)] {
        let Asked::Respond(request) = place.next().await else {
            panic!()
        };
        assert_eq!((request.approval_id.as_str(), request.etag.as_str()), ("a", "e"));
        assert_eq!(request.verdict(), verdict);
        assert_eq!(request.edited_arguments.and_then(|payload| payload.value), arguments);
        assert!(request_ids.insert(request.request_id));
    }
}

#[tokio::test]
async fn layers_and_interceptors_see_each_call_in_the_order_in_which_they_were_added() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = |name: &'static str| {
        let seen = seen.clone();
        move |mut request: Request<()>| {
            let tenant = request.metadata().get("x-tenant").unwrap().to_str().unwrap().to_owned();
            seen.lock().unwrap().push(format!("{name} {tenant}"));
            request.metadata_mut().insert(name, "here".parse().unwrap());
            Ok(request)
        }
    };
    let mut place = serve(Script {
        sent: [Ok(Task::default())].into(),
        ..Default::default()
    })
    .await;
    let client = Client::builder(&place.url)
        .metadata("x-tenant", "a")
        .layer(InterceptorLayer::new(noting("x-first")))
        .interceptor(noting("x-second"))
        .connect()
        .unwrap();
    client
        .with_metadata("x-tenant", "b")
        .unwrap()
        .send("Hello")
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), ["x-first b", "x-second b"]);
    let (_, headers) = place.asked.recv().await.unwrap();
    for name in ["x-first", "x-second"] {
        assert_eq!(headers.get(name).unwrap(), "here");
    }
}

#[tokio::test]
async fn an_interceptor_cannot_send_credentials_in_the_clear_either() {
    let adding = |mut request: Request<()>| {
        request.metadata_mut().insert("cookie", "secret".parse().unwrap());
        Ok(request)
    };
    let mut place = serve(Script {
        sent: [Ok(Task::default()), Ok(Task::default())].into(),
        ..Default::default()
    })
    .await;
    // The channel leads to this machine; the URL says what a caller believes.
    let channel = Endpoint::from_shared(place.url.replace("grpc", "http"))
        .unwrap()
        .connect_lazy();
    let far = || {
        Client::builder("grpc://agent.example:50051")
            .channel(channel.clone())
            .interceptor(adding)
    };
    let error = far().connect().unwrap().send("Hello").await.unwrap_err();
    assert_eq!(error.reason(), reason::INVALID_ARGUMENT);
    assert!(
        error.message().contains("agent.example") && !error.message().contains("secret"),
        "{error}"
    );
    assert!(place.asked.try_recv().is_err());
    far().insecure_ok().connect().unwrap().send("Hello").await.unwrap();
    place.next().await;
}
