//! Asks the vacation mesh for a trip and prints what happens, one line per event, while it happens.
//!
//! ```text
//! make demo ARGS="--yes --keep-running"                          # in one terminal; it prints the registry's URL
//! cargo run --example vacation -- grpc://... Santorini --yes     # in another one
//! ```
//!
//! The coordinator may book nothing without an approval: it is asked for here, or given by `--yes`.

use std::env;

use plgrpc_client::v1::{self, ListApprovalsRequest, RunEvent, run_event::Payload};
use plgrpc_client::{Client, Error, RegistryClient, Submission, text_of, url};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Flags may stand anywhere.
    let (flags, arguments): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let registry = arguments
        .first()
        .cloned()
        .or_else(|| env::var("PLGRPC_REGISTRY").ok())
        .ok_or("name the registry: vacation URL [TO] [--yes], or set PLGRPC_REGISTRY")?;
    let to = arguments.get(1).map_or("Santorini", String::as_str);
    let found = RegistryClient::connect(registry)?.lookup("coordinator").await?;
    let coordinator = Client::connect(url(&found.card.unwrap_or_default()))?;

    let wish = format!(r#"{{"to": {to:?}, "nights": 5, "guests": 2}}"#);
    let mut events = coordinator.stream(Submission::json(wish));
    while let Some(event) = events.try_next().await? {
        println!("{}", line(&event));
        if let Some(Payload::ApprovalRequired(required)) = event.payload {
            let says_yes = flags.iter().any(|flag| flag == "--yes");
            decide(&coordinator, event.task_id, &required.approval_id, says_yes).await?;
        }
    }
    Ok(())
}

/// An event in one line: kinds that this program has not heard of are shown by type and summary.
fn line(event: &RunEvent) -> String {
    let said = match &event.payload {
        Some(Payload::TaskStatus(change)) => {
            let why = change
                .failure
                .as_ref()
                .map_or(&change.cancel_reason, |failure| &failure.message);
            format!("{:?} {why}", change.new_state())
        }
        Some(Payload::TaskMessages(added)) => added.messages.iter().map(|message| text_of(&message.parts)).collect(),
        Some(Payload::LlmCallCompleted(call)) => call.text.clone(),
        Some(Payload::TaskArtifact(update)) => {
            let artifact = update.artifact.clone().unwrap_or_default();
            format!("publishes {} {}", artifact.kind, artifact.name)
        }
        _ => event.summary.clone(),
    };
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "{:>3}  {:<20} {:<12} {said:.120}",
        event.sequence, event.event_type, event.agent_name
    )
}

/// Answers the approval with that id, unless another approver does so first.
async fn decide(agent: &Client, task_id: String, approval_id: &str, says_yes: bool) -> Result<(), Error> {
    let mut waiting = agent.approvals(ListApprovalsRequest {
        task_id,
        ..Default::default()
    });
    while let Some(approval) = waiting.try_next().await? {
        if approval.approval_id != approval_id {
            continue;
        }
        let (approved, reason) = if says_yes {
            (true, "--yes")
        } else {
            let action = approval.action.clone().unwrap_or_default();
            eprint!("May {} run with {}? [y/n] ", action.name, arguments(action.payload));
            let answer = std::io::stdin().lines().next().and_then(Result::ok).unwrap_or_default();
            (answer.trim().eq_ignore_ascii_case("y"), "said at the terminal")
        };
        agent.respond(&approval, approved, reason).await?;
    }
    Ok(())
}

fn arguments(payload: Option<v1::Payload>) -> String {
    match payload.and_then(|payload| payload.value) {
        Some(v1::payload::Value::Json(json)) => json,
        _ => String::new(),
    }
}
