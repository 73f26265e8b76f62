//! Drafts that block each other, pauses, retries, and work outside of the agent.

use plgrpc_client::v1::{
    AppendTaskProgressRequest, CompleteTaskRequest, Failure, LinkKind, ListTaskSnapshotsRequest, Message, MessageRole,
    RetryTaskRequest, StopAt, TaskDescription, TaskLink, TaskState, TaskStatus, UpdateTaskRequest,
};
use plgrpc_client::{Code, Draft, TaskControl, output, parts, reason};
use uuid::Uuid;

use crate::cases::{Fallible, refused, whole_log};
use crate::{Outcome, World, expect};

pub async fn tasks(world: &World) -> Outcome {
    let (tasks, word) = (world.agent.tasks(), Uuid::new_v4().to_string());
    let draft = Draft::from(format!("echo {word}")).description(titled("First"));
    let draft = tasks.create(draft).await?;
    expect("the status of a draft", draft.status(), TaskStatus::Draft)?;
    let first = draft.task_id;
    let second = blocked(&tasks, "echo second", &first).await?;
    let cycle = tasks.link(&first, blocked_by(&second)).await;
    refused(cycle, Code::FailedPrecondition, reason::LINK_CYCLE)?;
    change(&tasks, &first, &second, &word).await?;
    tasks.start(&first).await?;
    whole_log(world.agent.subscribe(&second, 0, StopAt::Terminal)).await?;
    expect("the output", output(&world.agent.get(&first).await?), Some(word))?;
    expect(
        "the output",
        output(&world.agent.get(&second).await?),
        Some("second".into()),
    )?;
    pause_and_retry(world, &first).await?;
    work_outside(world).await?;
    let unknown = tasks.get(Uuid::new_v4()).await;
    refused(unknown, Code::NotFound, reason::TASK_NOT_FOUND)?;
    Ok(())
}

fn titled(title: &str) -> TaskDescription {
    TaskDescription {
        title: title.into(),
        ..Default::default()
    }
}

fn blocked_by(target: &str) -> TaskLink {
    TaskLink {
        kind: LinkKind::BlockedBy.into(),
        target: target.into(),
        ..Default::default()
    }
}

/// Starts a task that another one blocks.
async fn blocked(tasks: &TaskControl, text: &str, blocker: &str) -> Fallible<String> {
    let draft = Draft::from(text).link(LinkKind::BlockedBy, blocker);
    let id = tasks.create(draft).await?.task_id;
    let status = tasks.start(&id).await?.status();
    expect("the status of a blocked task", status, TaskStatus::Blocked)?;
    Ok(id)
}

/// Updates a draft, and finds it among the drafts, and not the started task.
async fn change(tasks: &TaskControl, draft: &str, started: &str, word: &str) -> Outcome {
    let changes = UpdateTaskRequest {
        task_id: draft.into(),
        description: Some(titled("The first")),
        metadata_json: format!(r#"{{"word": "{word}"}}"#),
        ..Default::default()
    };
    let updated = tasks.update(changes).await?;
    expect("the description", updated.description, Some(titled("The first")))?;
    let metadata: serde_json::Value = serde_json::from_str(&updated.metadata_json)?;
    expect("the metadata", metadata, serde_json::json!({ "word": word }))?;
    let mut drafts = tasks.list(ListTaskSnapshotsRequest {
        statuses: vec![TaskStatus::Draft.into()],
        ..Default::default()
    });
    let mut listed = Vec::new();
    while let Some(task) = drafts.try_next().await? {
        listed.push(task.task_id);
    }
    let is_listed = |id: &str| listed.iter().any(|each| each == id);
    expect(
        "whether the draft is listed",
        (is_listed(draft), is_listed(started)),
        (true, false),
    )
}

/// Pauses a task whose run has not begun, because another task blocks it; retries it after its end.
async fn pause_and_retry(world: &World, other: &str) -> Outcome {
    let tasks = world.agent.tasks();
    let blocker = tasks.create("wait").await?.task_id;
    tasks.start(&blocker).await?;
    let late = tasks.link(&blocker, blocked_by(other)).await;
    refused(late, Code::FailedPrecondition, reason::TASK_STARTED)?;
    let id = blocked(&tasks, "echo later", &blocker).await?;
    tasks.pause(&id, "lunch").await?;
    world.agent.cancel(&blocker, "enough").await?;
    let mut events = world.agent.subscribe(&id, 0, StopAt::Terminal);
    while let Some(event) = events.try_next().await? {
        if event.event_type == "task.paused" {
            break;
        }
    }
    let paused = tasks.get(&id).await?;
    let status = (paused.status(), paused.status_reason.as_str());
    expect("the status of a paused task", status, (TaskStatus::Paused, "lunch"))?;
    tasks.resume(&id, "").await?;
    whole_log(world.agent.subscribe(&id, 0, StopAt::Terminal)).await?;

    let ended = tasks.get(&id).await?.sequence;
    let retry = RetryTaskRequest {
        task_id: id.clone(),
        reason: "again".into(),
        ..Default::default()
    };
    tasks.retry(retry).await?;
    let (mut events, mut has_ended) = (world.agent.subscribe(&id, ended, StopAt::Terminal), false);
    while let Some(event) = events.try_next().await? {
        has_ended = event.last;
    }
    expect("whether the retry has ended", has_ended, true)?;
    let retried = tasks.get(&id).await?;
    let runs = (retried.status(), retried.retry_count, retried.attempt_count);
    expect("the runs", runs, (TaskStatus::Completed, 1, 2))
}

/// Starts, reports, completes and fails tasks whose work is done outside of the agent.
async fn work_outside(world: &World) -> Outcome {
    let tasks = world.agent.tasks();
    let id = started_outside(&tasks).await?;
    let report = AppendTaskProgressRequest {
        task_id: id.clone(),
        progress: Some(50.0),
        message: "half".into(),
        ..Default::default()
    };
    let progress = tasks.report_progress(report).await?.progress.unwrap_or_default();
    expect(
        "the progress",
        (progress.progress, progress.message.as_str()),
        (Some(50.0), "half"),
    )?;
    let evidence = TaskLink {
        kind: LinkKind::Evidence.into(),
        target: "https://example.com/report".into(),
        reason: "the report".into(),
        ..Default::default()
    };
    let linked = tasks.link(&id, evidence.clone()).await?.links;
    let targets: Vec<_> = linked
        .into_iter()
        .filter_map(|each| each.link)
        .map(|link| link.target)
        .collect();
    expect("the links", targets, [evidence.target.as_str()])?;
    let unlinked = tasks.unlink(&id, LinkKind::Evidence, evidence.target).await?;
    expect("the number of links that are left", unlinked.links.len(), 0)?;
    let completion = CompleteTaskRequest {
        task_id: id.clone(),
        messages: vec![Message {
            role: MessageRole::Agent.into(),
            parts: vec![parts::text("done")],
            ..Default::default()
        }],
        ..Default::default()
    };
    let done = tasks.complete(completion).await?;
    let completed = (done.status(), done.message_count);
    expect("the completed task", completed, (TaskStatus::Completed, 2))?;
    let answer = output(&world.agent.get(&id).await?);
    expect("the output", answer.as_deref(), Some("done"))?;
    let late = tasks.fail(&id, failure("too late")).await;
    refused(late, Code::FailedPrecondition, reason::TASK_FINISHED)?;
    let broken = started_outside(&tasks).await?;
    let failed = tasks.fail(&broken, failure("broken")).await?;
    let message = failed.failure.clone().unwrap_or_default().message;
    expect(
        "the failed task",
        (failed.status(), message.as_str()),
        (TaskStatus::Failed, "broken"),
    )
}

async fn started_outside(tasks: &TaskControl) -> Fallible<String> {
    let id = tasks.create("by hand").await?.task_id;
    let started = tasks.start_external(&id).await?;
    let begun = (started.external, started.state());
    expect("the external work", begun, (true, TaskState::Working))?;
    Ok(id)
}

fn failure(message: &str) -> Failure {
    Failure {
        message: message.into(),
        ..Default::default()
    }
}
