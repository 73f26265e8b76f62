//! Turns that are submitted once, and streams of a turn and of its session that are cut.

use plgrpc_client::v1::{
    GetSessionRequest, InterruptTurnRequest, ResumeThreadRequest, ResumeThreadResponse, RuntimeEvent,
    StartThreadRequest, StreamRuntimeEventsRequest, TaskState, Turn, TurnState,
};
use plgrpc_client::{Code, NewTurn, SessionItem, Sessions, output, reason};
use uuid::Uuid;

use crate::cases::{Fallible, counts, refused, whole_log};
use crate::{Outcome, World, expect};

pub async fn sessions(world: &World) -> Outcome {
    let (chat, word) = (world.agent.sessions(), Uuid::new_v4().to_string());
    let id = format!("chat-{word}");
    let flaky = format!("flaky 2 {word}");
    let mut turns = Vec::new();
    for (turn_id, text) in [("first", "wait"), ("second", &flaky), ("third", "cut 40 count 100")] {
        turns.push(chat.submit(&id, NewTurn::text(text).id(turn_id)).await?);
    }
    let states: Vec<_> = turns.iter().map(Turn::state).collect();
    let wanted = [TurnState::Active, TurnState::Queued, TurnState::Queued];
    expect("the states", states, wanted)?;
    let again = chat.submit(&id, NewTurn::text("echo other").id("second")).await?;
    expect("the task of the repeated turn", &again.task_id, &turns[1].task_id)?;
    stream_and_interrupt(&chat, &id).await?;

    let page = chat.get(about(&id)).await?;
    let results: Vec<_> = page
        .turns
        .iter()
        .map(|turn| (turn.turn_id.as_str(), turn.result()))
        .collect();
    let wanted = [
        ("first", TaskState::Canceled),
        ("second", TaskState::Completed),
        ("third", TaskState::Completed),
    ];
    expect("the results", results, wanted)?;
    let second = world.agent.get(&turns[1].task_id).await?;
    expect("the output", output(&second), Some(format!("{word} ran 1 times")))?;

    let end = page.session.unwrap_or_default().position;
    let rest = up_to(&chat, &id, end / 2, end).await?; // this stream is cut
    let whole = up_to(&chat, &id, 0, end).await?;
    let positions: Vec<_> = whole.iter().map(|item| item.position).collect();
    expect("the list of positions", positions, (1..=end).collect::<Vec<_>>())?;
    let half = usize::try_from(end / 2)?;
    expect("whether the rest is exact", rest == whole[half..], true)?;
    let late = chat.remove(&id, "third").await;
    refused(late, Code::FailedPrecondition, reason::TURN_NOT_QUEUED)?;
    let unknown = chat.get(about(&format!("{id}-unknown"))).await;
    refused(unknown, Code::NotFound, reason::SESSION_NOT_FOUND)?;
    change(world, &chat, &id).await
}

/// Edits, rolls back, branches, resumes, exports and deletes a session with the turns `first`, `second` and `third`.
async fn change(world: &World, chat: &Sessions, id: &str) -> Outcome {
    chat.submit(id, NewTurn::text("wait").id("fourth")).await?;
    let fifth = chat.submit(id, NewTurn::text("echo five").id("fifth")).await?;
    chat.replace_input(id, "fifth", "echo six").await?;
    let request = InterruptTurnRequest {
        session_id: id.into(),
        ..Default::default()
    };
    chat.interrupt(request).await?;
    whole_log(chat.stream(id, "fifth")).await?;
    let replaced = output(&world.agent.get(&fifth.task_id).await?);
    expect("the replaced input", replaced.as_deref(), Some("six"))?;
    for reason in ["wrong", "the repetition changes nothing"] {
        let thread = chat.roll_back(id, "fourth", reason).await?;
        expect("the number of rollbacks", thread.rollback_count, 1)?;
    }
    let turns = chat.get(about(id)).await?.turns;
    let rolled_back = turns.iter().filter(|turn| turn.rolled_back);
    let rolled_back: Vec<_> = rolled_back.map(|turn| turn.turn_id.as_str()).collect();
    expect("the turns that are rolled back", rolled_back, ["fourth", "fifth"])?;
    let origin = StartThreadRequest {
        session_id: id.into(),
        from_thread_id: "default".into(),
        from_turn_id: "second".into(),
        ..Default::default()
    };
    let branch = chat.start_thread(origin).await?;
    let origin = (branch.from_thread_id.as_str(), branch.from_turn_id.as_str());
    expect("the branch", origin, ("default", "second"))?;
    let request = ResumeThreadRequest {
        session_id: id.into(),
        ..Default::default()
    };
    let resumed = chat.resume(request).await?;
    expect("the open turns", resumed, ResumeThreadResponse::default())?;

    read_runtime_events(chat, id).await?;
    expect("the deleted turns", chat.delete(id).await?.turn_count, 5)?;
    let deleted = chat.get(about(id)).await;
    refused(deleted, Code::NotFound, reason::SESSION_NOT_FOUND)?;
    let gone = world.agent.get(&fifth.task_id).await;
    refused(gone, Code::NotFound, reason::TASK_NOT_FOUND)?;
    Ok(())
}

/// Reads a session as events of the Agent Runtime contract: all, and the second half.
async fn read_runtime_events(chat: &Sessions, id: &str) -> Outcome {
    let whole = runtime_events(chat, id, 0).await?;
    let middle = whole.len() / 2;
    let rest = runtime_events(chat, id, whole[middle - 1].sequence).await?;
    expect(
        "whether the rest of the runtime events is exact",
        rest == whole[middle..],
        true,
    )?;
    let started = whole.iter().filter(|event| event.r#type == "turn.started");
    let mut started: Vec<_> = started.map(|event| event.turn_id.as_str()).collect();
    started.sort_unstable();
    expect(
        "the started turns",
        started,
        ["fifth", "first", "fourth", "second", "third"],
    )
}

async fn runtime_events(chat: &Sessions, id: &str, after: i64) -> Fallible<Vec<RuntimeEvent>> {
    let request = StreamRuntimeEventsRequest {
        session_id: id.into(),
        after_sequence: after,
        stop_at_end: true,
    };
    let (mut events, mut found) = (chat.runtime_events(request), Vec::new());
    while let Some(event) = events.try_next().await? {
        found.push(event);
    }
    Ok(found)
}

fn about(session_id: &str) -> GetSessionRequest {
    GetSessionRequest {
        session_id: session_id.into(),
        ..Default::default()
    }
}

/// Streams the third turn to its end, and interrupts the first one when the stream has begun.
async fn stream_and_interrupt(chat: &Sessions, id: &str) -> Outcome {
    let (mut stream, mut events) = (chat.stream(id, "third"), Vec::new());
    while let Some(event) = stream.try_next().await? {
        events.push(event);
        let last = &events[events.len() - 1];
        expect("the sequence", last.sequence, events.len() as i64)?;
        if last.sequence == 1 {
            let request = InterruptTurnRequest {
                session_id: id.into(),
                reason: "enough".into(),
                ..Default::default()
            };
            let interrupted = chat.interrupt(request).await?;
            let ids: Vec<_> = interrupted.iter().map(|turn| turn.turn_id.as_str()).collect();
            expect("the interrupted turns", ids, ["first"])?;
        }
    }
    let is_last = events.last().is_some_and(|event| event.last);
    expect("whether the last event is final", is_last, true)?;
    counts(&events)
}

/// The events of a session after a position, up to another one.
async fn up_to(chat: &Sessions, id: &str, after: i64, end: i64) -> Fallible<Vec<SessionItem>> {
    let (mut items, mut found) = (chat.subscribe(id, after), Vec::new());
    while let Some(item) = items.try_next().await? {
        found.push(item);
        if found[found.len() - 1].position >= end {
            break;
        }
    }
    Ok(found)
}
