//! What the client does in each case, and what must come out.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use plgrpc_client::v1::run_event::Payload;
use plgrpc_client::v1::tool_output::Outcome as ToolOutcome;
use plgrpc_client::v1::{
    AgentCard, AgentChange, AgentChangeKind, AgentFilter, AgentInterface, Budget, CallToolRequest, Cost,
    DeregisterAgentRequest, FailureCategory, InstanceState, ListApprovalsRequest, ListToolsRequest, Message,
    MessageRole, PolicyDecision, PolicyEffect, RegisterAgentRequest, RenewLeaseRequest, RunEvent, RunOptions, StopAt,
    TaskInput, TaskState, Usage,
};
use plgrpc_client::{Client, Code, Error, Feed, References, Submission, output, parts, reason, text_of, url};
use uuid::Uuid;

use crate::{Outcome, World, expect};

pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub async fn unary(world: &World) -> Outcome {
    let task = world.agent.send("echo héllo 世界").await?;
    expect("the state", task.state(), TaskState::Completed)?;
    expect("the output", output(&task).as_deref(), Some("héllo 世界"))
}

pub async fn stream(world: &World) -> Outcome {
    counts(&whole_log(world.agent.stream("count 100")).await?)
}

pub async fn resume(world: &World) -> Outcome {
    counts(&whole_log(world.agent.stream("cut 40 count 100")).await?)
}

/// All events of a stream that must number them without a gap and end with the last one.
pub async fn whole_log(mut events: Feed<RunEvent>) -> Fallible<Vec<RunEvent>> {
    let mut found = Vec::new();
    while let Some(event) = events.try_next().await? {
        found.push(event);
        let last = &found[found.len() - 1];
        expect("the sequence", last.sequence, found.len() as i64)?;
    }
    expect(
        "whether the last event is final",
        found.last().is_some_and(|event| event.last),
        true,
    )?;
    Ok(found)
}

pub fn counts(events: &[RunEvent]) -> Outcome {
    let said = events.iter().filter_map(|event| match &event.payload {
        Some(Payload::TaskArtifact(update)) => Some(text_of(&update.artifact.as_ref()?.parts)),
        _ => None,
    });
    let wanted: Vec<_> = (1..=100).map(|number| number.to_string()).collect();
    expect("the list of artifacts", said.collect::<Vec<_>>(), wanted)
}

/// The state that an event tells of.
fn state(event: &RunEvent) -> Option<TaskState> {
    match &event.payload {
        Some(Payload::TaskStatus(change)) => Some(change.new_state()),
        _ => None,
    }
}

pub async fn cancel(world: &World) -> Outcome {
    let mut events = world.agent.stream("wait");
    let mut canceling = None;
    let mut last = None;
    while let Some(event) = events.try_next().await? {
        last = state(&event);
        if last == Some(TaskState::Working) {
            let (agent, id) = (world.agent.clone(), event.task_id);
            canceling = Some(tokio::spawn(async move { agent.cancel(id, "enough").await }));
        }
    }
    expect("the last state of the stream", last, Some(TaskState::Canceled))?;
    let canceled = canceling.ok_or("it never worked")?.await??;
    let now = world.agent.get(canceled.id).await?;
    expect("the state", now.state(), TaskState::Canceled)?;
    expect("the reason", now.cancel_reason, "enough")
}

/// The error of an answer that must be one, of that code and reason.
pub fn refused<T: Debug>(answer: Result<T, Error>, code: Code, reason: &str) -> Fallible<Error> {
    let Err(error) = answer else {
        return Err(format!("nothing was refused with {reason}").into());
    };
    expect("the refusal", (error.code(), error.reason()), (code, reason))?;
    Ok(error)
}

pub async fn deadline(world: &World) -> Outcome {
    let (id, began) = (Uuid::new_v4().to_string(), Instant::now());
    let hasty = world.agent.with_timeout(Duration::from_millis(300));
    refused(
        hasty.send(Submission::text("wait").id(&id)).await,
        Code::DeadlineExceeded,
        reason::DEADLINE_EXCEEDED,
    )?;
    if began.elapsed() > Duration::from_secs(3) {
        return Err(format!("the deadline was noticed after {:?}", began.elapsed()).into());
    }
    expect("the state", world.agent.get(&id).await?.state(), TaskState::Working)?;
    world.agent.cancel(&id, "seen").await?;
    Ok(())
}

pub async fn tool(world: &World) -> Outcome {
    let mut tools = world.agent.tools(ListToolsRequest {
        page_size: 2,
        ..Default::default()
    });
    let (mut names, mut read_only) = (Vec::new(), Vec::new());
    while let Some(tool) = tools.try_next().await? {
        names.push(tool.name);
        read_only.push(tool.read_only);
    }
    expect("the tools", names, ["echo", "hold", "stamp"])?;
    expect("which are read-only", read_only, [true, false, false])?;
    let call = |tool: &str, args: &str| CallToolRequest {
        call: parts::as_tool_call(&parts::tool_call(tool, args)).cloned(),
        ..Default::default()
    };
    let called = world.agent.call_tool(call("echo", r#"{"text": "hi"}"#)).await?;
    let output = called.output.unwrap_or_default();
    let Some(ToolOutcome::Result(result)) = output.outcome else {
        return Err("the tool has no result".into());
    };
    expect("the result", parts::payload_text(&result), r#""hi""#)?;
    let done = world.agent.get(called.task_id).await?;
    expect("the state", done.state(), TaskState::Completed)?;
    let hasty = world.agent.with_timeout(Duration::from_millis(300));
    let late = refused(
        hasty.call_tool(call("hold", "{}")).await,
        Code::DeadlineExceeded,
        reason::DEADLINE_EXCEEDED,
    )?;
    let id = late.task_id().unwrap_or_default();
    expect("the state", world.agent.get(id).await?.state(), TaskState::Working)?;
    world.agent.cancel(id, "seen").await?;
    Ok(())
}

pub async fn references(world: &World) -> Outcome {
    let (one, two) = (r#"{"arguments":{"text":"1"}}"#, r#"{"arguments":{"text":"2"}}"#);
    let events = whole_log(world.agent.stream("cut 5 spend 3")).await?;
    expect("the arguments", arguments_of(&events), [one, two])?;
    let answered = |event: &&RunEvent| matches!(event.payload, Some(Payload::LlmCallCompleted(_)));
    let first = events.iter().find(answered).ok_or("no model was called")?;
    let mut rest = world.agent.subscribe(&first.task_id, first.sequence, StopAt::Terminal);
    let rest = all(&mut rest).await?;
    expect(
        "the arguments of a log from its middle",
        arguments_of(&rest),
        ["abridged", two],
    )?;
    let call = CallToolRequest {
        call: parts::as_tool_call(&parts::tool_call("echo", r#"{"text":"hi"}"#)).cloned(),
        ..Default::default()
    };
    let called = world.agent.call_tool(call).await?;
    let whole = all(&mut world.agent.subscribe(called.task_id, 0, StopAt::Terminal)).await?;
    let wanted = [r#"{"arguments":{"text":"hi"}}"#];
    expect("the arguments of a tool that was called", arguments_of(&whole), wanted)?;

    let mut known = References::default();
    let mut events = world.agent.stream("approve it");
    while let Some(event) = events.try_next().await? {
        let event = known.resolve(event);
        if let Some(Payload::ApprovalRequired(_)) = event.payload {
            let action = known.action(&event.action_id).ok_or("the action is not known")?;
            expect("the action of the approval", action.name.as_str(), "stamp")?;
            let effect = known.verdict(&event.action_id).map(PolicyDecision::effect);
            expect("the verdict", effect, Some(PolicyEffect::RequireApproval))?;
            world.agent.cancel(event.task_id, "seen").await?;
        }
    }
    Ok(())
}

async fn all(events: &mut Feed<RunEvent>) -> Fallible<Vec<RunEvent>> {
    let mut found = Vec::new();
    while let Some(event) = events.try_next().await? {
        found.push(event);
    }
    Ok(found)
}

/// The payload of each action that is requested, or `abridged` where it is left out.
fn arguments_of(events: &[RunEvent]) -> Vec<&str> {
    let mut found = Vec::new();
    for event in events {
        if References::is_abridged(event) {
            found.push("abridged");
        } else if let Some(Payload::ActionRequested(requested)) = &event.payload {
            let payload = requested.action.as_ref().and_then(|action| action.payload.as_ref());
            found.push(payload.map(parts::payload_text).unwrap_or_default());
        }
    }
    found
}

pub async fn errors(world: &World) -> Outcome {
    let unknown = Uuid::new_v4().to_string();
    let missing = refused(world.agent.get(&unknown).await, Code::NotFound, reason::TASK_NOT_FOUND)?;
    expect("metadata task_id", missing.metadata().get("task_id"), Some(&unknown))?;

    let long = world
        .agent
        .send(Submission::text("echo too long").id("x".repeat(200)))
        .await;
    let invalid = refused(long, Code::InvalidArgument, reason::INVALID_ARGUMENT)?;
    let fields: Vec<_> = invalid.violations().iter().map(|each| each.field.as_str()).collect();
    expect("the list of fields", fields, ["input.task_id"])?;

    let done = world.agent.send("echo done").await?;
    let late = world.agent.cancel(done.id, "too late").await;
    refused(late, Code::FailedPrecondition, reason::TASK_NOT_CANCELABLE)?;
    Ok(())
}

pub async fn metadata(world: &World) -> Outcome {
    let guarded = || Client::builder(&world.guarded);
    for client in [
        guarded().api_key(&world.api_key).connect()?,
        guarded().bearer_token(&world.bearer).connect()?,
    ] {
        expect(
            "the principal",
            output(&client.send("whoami").await?).as_deref(),
            Some("conformance"),
        )?;
    }
    let anonymous = guarded().connect()?.send("whoami").await;
    refused(anonymous, Code::Unauthenticated, reason::UNAUTHENTICATED)?;

    let url = std::env::var("PLGRPC_AGENT")?;
    let telling = Client::builder(url).metadata("x-conformance", "hello").connect()?;
    let told = telling.send("header x-conformance").await?;
    expect("what was received", output(&told).as_deref(), Some("hello"))
}

pub async fn retry(world: &World) -> Outcome {
    let token = Uuid::new_v4().simple().to_string();
    let ran_once = format!("{token} ran 1 times");
    let task = world.agent.send(format!("flaky 2 {token}")).await?;
    expect("the output", output(&task), Some(ran_once))?;

    let (token, request) = (Uuid::new_v4().simple().to_string(), Uuid::new_v4().to_string());
    let ran_once = Some(format!("{token} ran 1 times"));
    let submission = Submission::text(format!("count-runs {token}")).request_id(request);
    let first = world.agent.send(submission.clone()).await?;
    let second = world.agent.send(submission).await?;
    expect("the second id", &second.id, &first.id)?;
    expect("the first output", &output(&first), &ran_once)?;
    expect("the second output", &output(&second), &ran_once)
}

pub async fn large(world: &World) -> Outcome {
    let text = "0123456789".repeat(300_000);
    let task = world.agent.send(format!("echo {text}")).await?;
    expect("whether the text came back whole", output(&task) == Some(text), true)
}

pub async fn approval(world: &World) -> Outcome {
    for (approved, said) in [(true, "approved"), (false, "refused")] {
        let mut events = world.agent.stream("approve it");
        let (mut last, mut answer) = (None, String::new());
        while let Some(event) = events.try_next().await? {
            last = state(&event);
            match event.payload {
                Some(Payload::ApprovalRequired(_)) => respond(&world.agent, event.task_id, approved).await?,
                Some(Payload::TaskMessages(added)) => {
                    answer = added
                        .messages
                        .last()
                        .map(|message| text_of(&message.parts))
                        .unwrap_or_default();
                }
                _ => {}
            }
        }
        expect("the last state of the stream", last, Some(TaskState::Completed))?;
        expect("the output", answer, said)?;
    }
    Ok(())
}

/// Answers the one approval of a task.
async fn respond(agent: &Client, task_id: String, approved: bool) -> Outcome {
    let mut watched = agent.watch_approvals(&task_id);
    let seen = watched.try_next().await?;
    let mut waiting = agent.approvals(ListApprovalsRequest {
        task_id,
        ..Default::default()
    });
    let approval = waiting.try_next().await?.ok_or("no approval is listed")?;
    expect("the approval that is watched", seen.as_ref(), Some(&approval))?;
    expect("the next approval", waiting.try_next().await?, None)?;
    let answer = agent.respond(&approval, approved, "conformance").await?;
    expect("whether another answer was first", answer.already_decided, false)
}

pub async fn budget(world: &World) -> Outcome {
    let price = Cost {
        micros: 200_000,
        currency: "USD".into(),
    };
    let money = Budget {
        max_cost: Some(price.clone()),
        ..Default::default()
    };
    let usage = spent(world, "spend 9", money.clone(), "max_cost").await?;
    expect("the costs", usage.costs, [price])?;
    expect("the number of model calls", usage.llm_calls, 2)?;
    let calls = Budget {
        max_tool_calls: Some(2),
        ..Default::default()
    };
    let usage = spent(world, "spend 9", calls, "max_tool_calls").await?;
    expect("the number of tool calls", usage.tool_calls, 2)?;
    let limit = Duration::from_millis(300);
    let time = Budget {
        max_runtime: Some(limit.try_into()?),
        ..Default::default()
    };
    let usage = spent(world, "ponder", time, "max_runtime_seconds").await?;
    let took = Duration::try_from(usage.runtime.unwrap_or_default())?;
    let in_time = (limit..Duration::from_secs(5)).contains(&took);
    expect(&format!("whether {took:?} is the time of the run"), in_time, true)?;
    let done = world.agent.send(limited("spend 2", money)).await?;
    expect("the output", output(&done).as_deref(), Some("spent 2"))
}

/// A task that says `text`, with a budget.
fn limited(text: &str, budget: Budget) -> TaskInput {
    let message = Message {
        role: MessageRole::User.into(),
        parts: vec![parts::text(text)],
        ..Default::default()
    };
    TaskInput {
        messages: vec![message],
        options: Some(RunOptions {
            budget: Some(budget),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Runs a text that must fail because of one limit of its budget. Returns what the run has used, as its log and the task say.
async fn spent(world: &World, text: &str, budget: Budget, limit: &str) -> Fallible<Usage> {
    let mut events = whole_log(world.agent.stream(limited(text, budget))).await?;
    let last = events.pop().ok_or("there was no event")?;
    let Some(Payload::TaskStatus(status)) = last.payload else {
        return Err("the last event is no change of the state".into());
    };
    let task = world.agent.get(last.task_id).await?;
    expect("the state", task.state(), TaskState::Failed)?;
    expect("the failure of the task", &task.failure, &status.failure)?;
    expect("the usage of the task", &task.usage, &status.usage)?;
    let failure = status.failure.unwrap_or_default();
    expect("the reason", failure.reason.as_str(), reason::BUDGET_EXCEEDED)?;
    expect("the category", failure.category(), FailureCategory::Limit)?;
    expect("whether the same work may succeed later", failure.retryable, false)?;
    let details = failure.details.unwrap_or_default();
    let details: serde_json::Value = serde_json::from_str(parts::payload_text(&details))?;
    expect("the limit", details["limit_name"].as_str(), Some(limit))?;
    status.usage.ok_or("the last event has no usage".into())
}

pub async fn registry(world: &World) -> Outcome {
    let found = world.registry.lookup("conformance").await?.card.unwrap_or_default();
    expect("the URL by name", url(&found), std::env::var("PLGRPC_AGENT")?.as_str())?;
    let mut tagged = world.registry.list(AgentFilter {
        tags: vec!["scripted".into()],
        ..Default::default()
    });
    let mut names = Vec::new();
    while let Some(agent) = tagged.try_next().await? {
        names.push(agent.card.unwrap_or_default().name);
    }
    expect("the names by tag", names, ["conformance"])?;

    let name = format!("temp-{}", &Uuid::new_v4().simple().to_string()[..8]);
    let mut changes = world.registry.watch(AgentFilter::default());
    expect(
        "the first change",
        told(changes.try_next().await?),
        (AgentChangeKind::Up, "conformance".into()),
    )?;
    let mut stub = world.registry.registry();
    let first = AgentInterface {
        url: format!("grpc://{name}.invalid:1"),
        transport: "grpc".into(),
        ..Default::default()
    };
    let card = AgentCard {
        name: name.clone(),
        description: "Comes and goes.".into(),
        interfaces: vec![first],
        ..Default::default()
    };
    let registered = stub
        .register_agent(RegisterAgentRequest {
            card: Some(card),
            ..Default::default()
        })
        .await?;
    expect(
        "the change",
        told(changes.try_next().await?),
        (AgentChangeKind::Up, name.clone()),
    )?;
    let lease_id = registered.into_inner().lease_id;
    // The second heartbeat reports another load, which a watch does not show.
    for running in 0..2 {
        stub.renew_lease(RenewLeaseRequest {
            lease_id: lease_id.clone(),
            state: InstanceState::Draining.into(),
            running,
            ..Default::default()
        })
        .await?;
    }
    let draining = changes.try_next().await?.unwrap_or_default();
    let state = draining.agent.as_ref().map(|agent| agent.state());
    expect("the state", state, Some(InstanceState::Draining))?;
    expect("the change", told(Some(draining)), (AgentChangeKind::Up, name.clone()))?;
    stub.deregister_agent(DeregisterAgentRequest { lease_id }).await?;
    expect(
        "the change",
        told(changes.try_next().await?),
        (AgentChangeKind::Down, name),
    )
}

fn told(change: Option<AgentChange>) -> (AgentChangeKind, String) {
    let change = change.unwrap_or_default();
    let kind = change.kind();
    (kind, change.agent.and_then(|agent| agent.card).unwrap_or_default().name)
}

pub async fn unknown_event(world: &World) -> Outcome {
    let events = whole_log(world.agent.stream("future")).await?;
    let strange: Vec<_> = events
        .iter()
        .filter(|event| event.event_type == "example.unheard_of")
        .collect();
    expect("the number of strange events", strange.len(), 1)?;
    expect("the summary", &strange[0].summary, "From the future")?;
    expect("the payload", &strange[0].payload, &None)
}

pub async fn unknown_part(world: &World) -> Outcome {
    let events = whole_log(world.agent.stream("future")).await?;
    let parts: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Some(Payload::TaskArtifact(update)) => update.artifact.as_ref(),
            _ => None,
        })
        .flat_map(|artifact| &artifact.parts)
        .collect();
    expect("the number of parts", parts.len(), 1)?;
    expect("the content", &parts[0].content, &None)?;
    expect(
        "the text to show",
        parts[0].fallback_text.as_str(),
        "A part from the future",
    )
}

pub async fn unknown_enum(world: &World) -> Outcome {
    let events = whole_log(world.agent.stream("future")).await?;
    let states: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Some(Payload::TaskStatus(change)) => Some(change.new_state),
            _ => None,
        })
        .collect();
    expect("the states", states, vec![77, TaskState::Completed as i32])
}

pub async fn missing_event(world: &World) -> Outcome {
    let mut events = world.agent.stream("gap 5 count 10");
    let (mut task_id, mut sequences) = (String::new(), Vec::new());
    let gap = loop {
        match events.try_next().await {
            Ok(Some(event)) => {
                sequences.push(event.sequence);
                task_id = event.task_id;
            }
            Ok(None) => return Err("nothing was missing".into()),
            Err(error) => break error,
        }
    };
    expect("the code", gap.code(), Code::DataLoss)?;
    expect("the task of the error", gap.task_id(), Some(&*task_id))?;
    expect("the events before the gap", sequences, [1, 2, 3, 4, 5])?;
    let mut rest = world.agent.subscribe(&task_id, 5, StopAt::Terminal);
    let mut following = Vec::new();
    while let Some(event) = rest.try_next().await? {
        following.push(event.sequence);
    }
    expect("the events after them", following, (6..=13).collect::<Vec<_>>())
}
