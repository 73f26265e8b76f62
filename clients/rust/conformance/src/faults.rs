//! Cases in which the connection fails, or the caller makes a mistake.

use std::ops::Range;
use std::time::{Duration, Instant};

use plgrpc_client::v1::run_event::Payload;
use plgrpc_client::v1::{
    ActionOutcome, ApprovalState, ListApprovalsRequest, RetryTaskRequest, RunEvent, StopAt, TaskState,
};
use plgrpc_client::{Client, Code, Error, Feed, Submission, output, reason};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::cases::{Fallible, counts, refused, whole_log};
use crate::{Outcome, World, expect};

/// What the cases with a patience of their own set, and when calls must then have failed.
const PATIENCE: Duration = Duration::from_secs(2);
const GIVEN_UP: Range<Duration> = Duration::from_secs(2)..Duration::from_secs(9);

fn hostile(world: &World) -> Fallible<Client> {
    Ok(Client::connect(&world.hostile)?)
}

fn impatient(world: &World) -> Fallible<Client> {
    Ok(Client::builder(&world.hostile).patience(PATIENCE).connect()?)
}

fn new_word() -> String {
    Uuid::new_v4().simple().to_string()
}

pub async fn outage(world: &World) -> Outcome {
    counts(&whole_log(hostile(world)?.stream("outage 4000 40 count 100")).await?)
}

pub async fn reset(world: &World) -> Outcome {
    for code in [8, 2, 0] {
        let text = format!("reset {code} 40 count 100");
        let events = whole_log(hostile(world)?.stream(text)).await;
        let counted = events.and_then(|events| counts(&events));
        counted.map_err(|error| format!("code {code}: {error}"))?;
    }
    Ok(())
}

pub async fn early_ok(world: &World) -> Outcome {
    counts(&whole_log(hostile(world)?.stream("early 40 count 100")).await?)
}

pub async fn cut_end(world: &World) -> Outcome {
    let asked = last(world.agent.stream("cut-end ask where")).await?;
    let state = match &asked.payload {
        Some(Payload::TaskStatus(change)) => change.new_state(),
        _ => TaskState::Unspecified,
    };
    expect("the end of the first turn", state, TaskState::InputRequired)?;
    let id = asked.task_id;
    let ended = last(world.agent.stream(Submission::text("there").continuing(&id))).await?;
    expect("the end of the second turn", ended.last, true)?;
    let retry = RetryTaskRequest {
        task_id: id.clone(),
        request_id: new_word(),
        ..Default::default()
    };
    for _ in 0..2 {
        world.agent.tasks().retry(retry.clone()).await?;
    }

    let events = whole_log(world.agent.subscribe(&id, 0, StopAt::Terminal)).await?;
    let end = events.len() as i64;
    let ends = events.iter().filter(|event| event.last).map(|event| event.sequence);
    expect("the ends", ends.collect::<Vec<_>>(), vec![ended.sequence, end])?;
    let retries = events
        .iter()
        .filter(|event| matches!(event.payload, Some(Payload::TaskRetried(_))));
    expect("the number of retries", retries.count(), 1)?;
    let rest = world.agent.subscribe(&id, end, StopAt::Terminal).try_next().await?;
    expect("whether anything follows the end", rest.is_some(), false)
}

/// The last event of a stream.
async fn last(mut events: Feed<RunEvent>) -> Fallible<RunEvent> {
    let mut last = RunEvent::default();
    while let Some(event) = events.try_next().await? {
        last = event;
    }
    Ok(last)
}

pub async fn idle_cuts(world: &World) -> Outcome {
    let events = whole_log(impatient(world)?.stream("idle 5 1100 echo here")).await?;
    let task = world.agent.get(&events[0].task_id).await?;
    expect("the output", output(&task).as_deref(), Some("here"))
}

/// What the agent says about the calls of a task.
async fn calls(world: &World, word: &str) -> Fallible<serde_json::Value> {
    let task = world.agent.send(format!("calls {word}")).await?;
    Ok(serde_json::from_str(&output(&task).unwrap_or_default())?)
}

/// The agent was called again, though not without end, and has run the task once.
async fn called_some_times(world: &World, word: &str) -> Outcome {
    let said = calls(world, word).await?;
    let count = said["calls"].as_u64().unwrap_or_default();
    expect(
        &format!("whether {count} is 3 to 20 calls"),
        (3..=20).contains(&count),
        true,
    )?;
    expect("the number of runs", said["runs"].as_u64(), Some(1))
}

fn in_time(began: Instant) -> Outcome {
    let took = began.elapsed();
    expect(&format!("whether {took:?} is 2 to 9 s"), GIVEN_UP.contains(&took), true)
}

/// The error that ends a stream.
async fn failure(events: &mut Feed<RunEvent>) -> Result<(), Error> {
    while events.try_next().await?.is_some() {}
    Ok(())
}

pub async fn flapping(world: &World) -> Outcome {
    let (word, began) = (new_word(), Instant::now());
    let submission = Submission::text(format!("flap {word}"));
    let task_id = submission.task_id().to_owned();
    let failed = failure(&mut impatient(world)?.stream(submission)).await;
    refused(failed, Code::Unavailable, reason::UNAVAILABLE)?;
    in_time(began)?;
    world.agent.cancel(task_id, "seen").await?;
    called_some_times(world, &word).await
}

pub async fn retry_bound(world: &World) -> Outcome {
    let (word, began) = (new_word(), Instant::now());
    let failed = impatient(world)?.send(format!("down {word}")).await;
    let error = refused(failed, Code::Unavailable, reason::UNAVAILABLE)?;
    in_time(began)?;
    let task_id = error.task_id().ok_or("the error names no task")?;
    expect("the id of the task", &world.agent.get(task_id).await?.id, task_id)?;
    world.agent.cancel(task_id, "seen").await?;
    called_some_times(world, &word).await
}

pub async fn deadline_in_outage(world: &World) -> Outcome {
    let (word, began) = (new_word(), Instant::now());
    let hasty = hostile(world)?.with_timeout(Duration::from_secs(1));
    let failed = hasty.send(format!("down {word}")).await;
    let error = refused(failed, Code::DeadlineExceeded, reason::DEADLINE_EXCEEDED)?;
    let took_ms = began.elapsed().as_millis();
    expect("whether it took 1 to 5 s", (950..5000).contains(&took_ms), true)?;
    world
        .agent
        .cancel(error.task_id().ok_or("the error names no task")?, "seen")
        .await?;
    Ok(())
}

pub async fn cancel_in_pause(world: &World) -> Outcome {
    let submission = Submission::text(format!("flap {}", new_word()));
    let task_id = submission.task_id().to_owned();
    let mut events = hostile(world)?.stream(submission);
    let (first, shown) = oneshot::channel();
    let call = tokio::spawn(async move {
        let event = events.try_next().await;
        let _ = first.send(event.is_ok());
        failure(&mut events).await
    });
    expect("whether there was an event", shown.await?, true)?;
    sleep(Duration::from_secs(1)).await; // the case says so
    call.abort();
    let ended = timeout(Duration::from_millis(500), call).await?;
    let is_canceled = ended.is_err_and(|error| error.is_cancelled());
    expect("whether the call ended as canceled", is_canceled, true)?;
    world.agent.cancel(task_id, "seen").await?;
    Ok(())
}

pub async fn decision_in_cut(world: &World) -> Outcome {
    let pause = Duration::from_millis(500);
    let text = "undecided 5 approve it";
    decided(world, text, &world.agent, true, Duration::ZERO).await?;
    decided(world, "outage 2000 5 approve it", &hostile(world)?, false, pause).await
}

/// Streams a task whose approval is answered while its stream is cut: by `approver`, a pause after the stream has shown the
/// question. The stream must show the answer once, and what follows from it.
async fn decided(world: &World, text: &str, approver: &Client, approved: bool, pause: Duration) -> Outcome {
    let mut events = hostile(world)?.stream(text);
    let (mut seen, mut answers, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut task_id = String::new();
    while let Some(event) = events.try_next().await? {
        seen.push(event.sequence);
        match event.payload {
            Some(Payload::ApprovalRequired(_)) => {
                task_id = event.task_id;
                sleep(pause).await; // by then the connection is closed
                respond(world, &task_id, approver, approved).await?;
            }
            Some(Payload::ApprovalDecided(answer)) => answers.push(answer.state()),
            Some(Payload::ActionEnded(end)) => ends.push(end.outcome()),
            _ => {}
        }
    }
    let (answer, end, said) = if approved {
        (ApprovalState::Approved, ActionOutcome::Completed, "approved")
    } else {
        (ApprovalState::Denied, ActionOutcome::Denied, "refused")
    };
    let count = i64::try_from(seen.len())?;
    expect("the list of sequences", seen, (1..=count).collect::<Vec<_>>())?;
    expect("the answers", answers, [answer])?;
    expect("the ends of the action", ends, [end])?;
    let done = world.agent.get(task_id).await?;
    expect("the output", output(&done).as_deref(), Some(said))
}

/// Answers the one approval of a task; no other answer may have been first.
async fn respond(world: &World, task_id: &str, approver: &Client, approved: bool) -> Outcome {
    let mut waiting = world.agent.approvals(ListApprovalsRequest {
        task_id: task_id.into(),
        ..Default::default()
    });
    let approval = waiting.try_next().await?.ok_or("no approval is listed")?;
    let response = approver.respond(&approval, approved, "").await?;
    expect("whether another answer was first", response.already_decided, false)
}

pub async fn forgotten_task(world: &World) -> Outcome {
    let mut events = hostile(world)?.stream("forget 5 count 100");
    let mut sequences = Vec::new();
    let failed = loop {
        match events.try_next().await {
            Ok(Some(event)) => sequences.push(event.sequence),
            other => break other,
        }
    };
    expect("the list of sequences", sequences, [1, 2, 3, 4, 5])?;
    refused(failed, Code::NotFound, reason::TASK_NOT_FOUND)?;
    Ok(())
}

pub async fn mistyped(world: &World) -> Outcome {
    let answer = || Submission::text("echo lost").continuing("no-such-task");
    let sent = world.agent.send(answer()).await;
    refused(sent, Code::NotFound, reason::TASK_NOT_FOUND)?;
    let streamed = world.agent.stream(answer()).try_next().await;
    refused(streamed, Code::NotFound, reason::TASK_NOT_FOUND)?;
    Ok(())
}

pub async fn expected_sequence(world: &World) -> Outcome {
    let asked = world.agent.send("ask where").await?;
    let answer = |sequence| {
        Submission::text("there")
            .continuing(&asked.id)
            .expected_sequence(sequence)
    };
    let stale = world.agent.send(answer(asked.sequence - 1)).await;
    let error = refused(stale, Code::Aborted, reason::SEQUENCE_CONFLICT)?;
    let last = asked.sequence.to_string();
    expect(
        "metadata last_sequence",
        error.metadata().get("last_sequence"),
        Some(&last),
    )?;
    let done = world.agent.send(answer(asked.sequence)).await?;
    expect("the state", done.state(), TaskState::Completed)?;
    expect("the output", output(&done).as_deref(), Some("there"))
}

pub async fn credentials(_: &World) -> Outcome {
    let far = || Client::builder("grpc://agent.example:50051");
    for made in [
        far().api_key("secret").connect(),
        far().metadata("authorization", "Basic secret").connect(),
        far().connect()?.with_metadata("authorization", "Basic secret"),
    ] {
        let error = refused(made, Code::InvalidArgument, reason::INVALID_ARGUMENT)?;
        expect(
            "whether the error has the secret",
            error.to_string().contains("secret"),
            false,
        )?;
    }
    Ok(())
}

pub async fn leak(world: &World) -> Outcome {
    let word = new_word();
    let mut events = hostile(world)?.stream(format!("hold {word}"));
    let task_id = events.try_next().await?.ok_or("there was no event")?.task_id;
    expect(
        "the number of streams",
        calls(world, &word).await?["open"].as_u64(),
        Some(1),
    )?;
    drop(events);
    let mut open = None;
    for _ in 0..50 {
        open = calls(world, &word).await?["open"].as_u64();
        if open == Some(0) {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    expect("the number of open streams", open, Some(0))?;
    world.agent.cancel(task_id, "seen").await?;
    Ok(())
}
