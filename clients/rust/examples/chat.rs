//! A chat with an agent: each line is a turn, lines wait for each other, and one stream shows everything that happens.
//!
//! ```text
//! plgrpc conformance serve                                       # prints the URL of an agent, among others
//! cargo run --example chat -- grpc://127.0.0.1:PORT [SESSION]
//! ```
//!
//! `/stop` interrupts the active turn, `/clear` also removes those that wait. That agent understands `echo TEXT`, `wait`
//! and `ask QUESTION`. Started again with the same session, it shows the conversation so far, and continues it.

use std::{env, io, thread};

use plgrpc_client::v1::{
    CreateSessionRequest, InterruptTurnRequest, RunEvent, run_event::Payload, session_event::Payload as SessionPayload,
};
use plgrpc_client::{Client, Error, SessionFact, SessionItem, Sessions, text_of};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).ok_or("the URL of the agent is missing")?;
    let sessions = Client::connect(url)?.sessions();
    let request = CreateSessionRequest {
        session_id: env::args().nth(2).unwrap_or_default(),
        title: "A chat".into(),
        ..Default::default()
    };
    let id = sessions.create(request).await?.session_id;
    println!("session {id}");
    let mut items = sessions.subscribe(&id, 0);
    let mut lines = lines();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => submit(&sessions, &id, line).await?,
                None => return Ok(()),
            },
            item = items.try_next() => match item? {
                Some(item) => println!("{}", shown(&item)),
                None => return Ok(()),
            },
        }
    }
}

/// The lines of the standard input, which is read by a thread of its own: reading blocks.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Makes a turn of a line, or follows a command.
async fn submit(sessions: &Sessions, id: &str, line: String) -> Result<(), Error> {
    if line != "/stop" && line != "/clear" {
        sessions.submit(id, line).await?;
        return Ok(());
    }
    let request = InterruptTurnRequest {
        session_id: id.into(),
        reason: "the user has stopped it".into(),
        clear_queue: line == "/clear",
        ..Default::default()
    };
    println!("{} turns were open", sessions.interrupt(request).await?.len());
    Ok(())
}

/// An item in one line.
fn shown(item: &SessionItem) -> String {
    let what = match &item.fact {
        SessionFact::Task(event) => format!("{:<20} {}", event.event_type, said(event)),
        SessionFact::Session(event) => match &event.payload {
            Some(SessionPayload::TurnSubmitted(turn)) => format!("turn submitted, queued: {}", turn.queued),
            Some(SessionPayload::TurnEnded(turn)) => format!("turn ended: {:?}", turn.result()),
            _ => "session".into(),
        },
    };
    format!("{:>4}  {what}", item.position)
}

/// The text of the messages that an event adds, or its summary.
fn said(event: &RunEvent) -> String {
    match &event.payload {
        Some(Payload::TaskMessages(added)) => added.messages.iter().map(|message| text_of(&message.parts)).collect(),
        _ => event.summary.clone(),
    }
}
