//! The conformance program of the Rust client: `plgrpc conformance run -- target/release/conformance`.
//!
//! It knows the public client and the environment that it is started with, and nothing of the server.

mod cases;
mod faults;
mod sessions;
mod snapshots;
mod tasks;
mod typed;
mod vectors;

use std::env;
use std::fmt::Debug;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use plgrpc_client::{Client, RegistryClient};

/// How long one case may take.
const CASE: Duration = Duration::from_secs(60);

/// What a case returns: why it failed, in one sentence.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Where the stage is.
struct World {
    agent: Client,
    hostile: String,
    guarded: String,
    api_key: String,
    bearer: String,
    registry: RegistryClient,
    calculator: String,
    vectors: String,
}

impl World {
    fn from_environment() -> Result<Self, plgrpc_client::Error> {
        let given = |name: &str| env::var(format!("PLGRPC_{name}")).unwrap_or_default();
        Ok(Self {
            agent: Client::connect(given("AGENT"))?,
            hostile: given("HOSTILE"),
            guarded: given("GUARDED"),
            api_key: given("API_KEY"),
            bearer: given("BEARER"),
            registry: RegistryClient::connect(given("REGISTRY"))?,
            calculator: given("CALCULATOR"),
            vectors: given("VECTORS"),
        })
    }
}

/// Fails, with both values, where they differ.
fn expect<T: Debug + PartialEq<W>, W: Debug>(what: &str, found: T, wanted: W) -> Outcome {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what} is {}, not {}", short(&found), short(&wanted)).into())
}

fn short(value: &dyn Debug) -> String {
    format!("{value:?}").chars().take(200).collect()
}

async fn outcome(name: &str, case: impl Future<Output = Outcome>) -> bool {
    let began = Instant::now();
    let result = tokio::time::timeout(CASE, case)
        .await
        .unwrap_or_else(|_| Err("it took too long".into()));
    match &result {
        Ok(()) => println!("PASS {name} {}ms", began.elapsed().as_millis()),
        Err(error) => {
            println!(
                "FAIL {name}: {}",
                error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
            );
        }
    }
    result.is_ok()
}

#[tokio::main]
async fn main() -> ExitCode {
    let world = &match World::from_environment() {
        Ok(world) => world,
        Err(error) => {
            eprintln!("the environment names no stage: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut passed = true;
    passed &= outcome("unary", cases::unary(world)).await;
    passed &= outcome("stream", cases::stream(world)).await;
    passed &= outcome("resume", cases::resume(world)).await;
    passed &= outcome("cancel", cases::cancel(world)).await;
    passed &= outcome("deadline", cases::deadline(world)).await;
    passed &= outcome("errors", cases::errors(world)).await;
    passed &= outcome("metadata", cases::metadata(world)).await;
    passed &= outcome("retry", cases::retry(world)).await;
    passed &= outcome("large", cases::large(world)).await;
    passed &= outcome("approval", cases::approval(world)).await;
    passed &= outcome("budget", cases::budget(world)).await;
    passed &= outcome("registry", cases::registry(world)).await;
    passed &= outcome("tool", cases::tool(world)).await;
    passed &= outcome("typed-call", typed::call(&world.calculator)).await;
    passed &= outcome("typed-stream", typed::stream(&world.calculator)).await;
    passed &= outcome("references", cases::references(world)).await;
    passed &= outcome("sessions", sessions::sessions(world)).await;
    passed &= outcome("tasks", tasks::tasks(world)).await;
    passed &= outcome("snapshots", snapshots::snapshots(world)).await;
    passed &= outcome("unknown-event", cases::unknown_event(world)).await;
    passed &= outcome("unknown-part", cases::unknown_part(world)).await;
    passed &= outcome("unknown-enum", cases::unknown_enum(world)).await;
    passed &= outcome("missing-event", cases::missing_event(world)).await;
    passed &= outcome("outage", faults::outage(world)).await;
    passed &= outcome("reset", faults::reset(world)).await;
    passed &= outcome("early-ok", faults::early_ok(world)).await;
    passed &= outcome("cut-end", faults::cut_end(world)).await;
    passed &= outcome("idle-cuts", faults::idle_cuts(world)).await;
    passed &= outcome("flapping", faults::flapping(world)).await;
    passed &= outcome("retry-bound", faults::retry_bound(world)).await;
    passed &= outcome("deadline-in-outage", faults::deadline_in_outage(world)).await;
    passed &= outcome("cancel-in-pause", faults::cancel_in_pause(world)).await;
    passed &= outcome("decision-in-cut", faults::decision_in_cut(world)).await;
    passed &= outcome("forgotten-task", faults::forgotten_task(world)).await;
    passed &= outcome("mistyped", faults::mistyped(world)).await;
    passed &= outcome("expected-sequence", faults::expected_sequence(world)).await;
    passed &= outcome("credentials", faults::credentials(world)).await;
    passed &= outcome("leak", faults::leak(world)).await;
    if world.vectors.is_empty() {
        println!("SKIP vectors: there is no folder of vectors");
    } else {
        passed &= outcome("vectors", async { vectors::check(world.vectors.as_ref()) }).await;
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
