//! What a session, its thread and its queue are, and what tasks have done.

use plgrpc_client::v1::{ActionOutcome, InterruptTurnRequest, ThreadStatus};
use plgrpc_client::{Code, NewTurn, reason};
use uuid::Uuid;

use crate::cases::{refused, whole_log};
use crate::{Outcome, World, expect};

pub async fn snapshots(world: &World) -> Outcome {
    let (reader, id) = (world.agent.snapshots(), format!("chat-{}", Uuid::new_v4()));
    read_session(world, &id).await?;
    read_tasks(world).await?;
    let unknown = format!("{id}-unknown");
    let thread = reader.thread(&id, "unknown").await;
    refused(thread, Code::NotFound, reason::THREAD_NOT_FOUND)?;
    let session = reader.session(&unknown).await;
    refused(session, Code::NotFound, reason::SESSION_NOT_FOUND)?;
    let task = reader.evidence(&unknown).await;
    refused(task, Code::NotFound, reason::TASK_NOT_FOUND)?;
    Ok(())
}

/// Reads a session with an active and a queued turn, and again when the turns have ended.
async fn read_session(world: &World, id: &str) -> Outcome {
    let (chat, reader) = (world.agent.sessions(), world.agent.snapshots());
    for (turn_id, text) in [("first", "wait"), ("second", "echo second")] {
        chat.submit(id, NewTurn::text(text).id(turn_id)).await?;
    }
    let session = reader.session(id).await?.session.unwrap_or_default();
    let open: Vec<_> = session.open_turns.iter().map(|turn| turn.turn_id.as_str()).collect();
    expect("the open turns", open, ["first", "second"])?;
    let thread = reader.thread(id, "").await?;
    expect("the position", thread.position, session.position)?;
    expect("the status", thread.status(), ThreadStatus::Running)?;
    let queue = reader.queue(id, "").await?.queued_turns;
    expect("the length of the queue", queue.len(), 1)?;
    let turn_id = queue[0].turn.clone().unwrap_or_default().turn_id;
    let queued = (turn_id.as_str(), queue[0].place, queue[0].preview.as_str());
    expect("the queue", queued, ("second", 1, "echo second"))?;
    let request = InterruptTurnRequest {
        session_id: id.into(),
        ..Default::default()
    };
    chat.interrupt(request).await?;
    whole_log(chat.stream(id, "second")).await?;
    let status = reader.thread(id, "").await?.status();
    expect("the status after the last turn", status, ThreadStatus::Completed)
}

/// Reads the tools, the context and evidence of a task with model calls, and the artifacts of another.
async fn read_tasks(world: &World) -> Outcome {
    let reader = world.agent.snapshots();
    let tools = reader.tools().await?.tools.into_iter();
    let tools: Vec<_> = tools.filter_map(|each| each.tool).map(|tool| tool.name).collect();
    expect("the tools", tools, ["echo", "hold", "stamp"])?;
    let spent = world.agent.send("spend 3").await?.id;
    let context = reader.context(&spent).await?;
    let call = (context.prepared_sequence > 0, context.step);
    expect("the model call", call, (true, 3))?;
    let evidence = reader.evidence(&spent).await?;
    let calls = evidence.actions.iter();
    let calls = calls.filter(|each| each.kind == "tool.call" && each.outcome() == ActionOutcome::Completed);
    expect("the tool calls", calls.map(|each| each.count).sum::<i64>(), 2)?;
    let counted = world.agent.send("count 3").await?.id;
    let artifacts = reader.artifacts(&counted).await?.artifacts;
    let previews: Vec<_> = artifacts.iter().map(|each| each.preview.as_str()).collect();
    expect("the artifacts", previews, ["1", "2", "3"])
}
