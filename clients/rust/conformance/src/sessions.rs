//! Turns that are submitted once, and streams of a turn and of its session that are cut.

use plgrpc_client::v1::{GetSessionRequest, InterruptTurnRequest, TaskState, Turn, TurnState};
use plgrpc_client::{Code, NewTurn, SessionItem, Sessions, output, reason};
use uuid::Uuid;

use crate::cases::{Fallible, counts, refused};
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
    Ok(())
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
