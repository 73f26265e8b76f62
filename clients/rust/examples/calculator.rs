//! Calls an agent's typed service with generated code: requests and answers are structs.
//!
//! ```text
//! plgrpc conformance serve                                      # prints the URL of a calculator, among others
//! cargo run --example calculator -- grpc://127.0.0.1:PORT
//! ```
//!
//! The code in gen/ was made by `plgrpc gen --lang rust --proto calculator.proto --out gen`.

use std::env;

use plgrpc_client::{Client, Error, reason};

use calculator::calculator_client::CalculatorClient;
use calculator::{AccumulateRequest, AddRequest, CountRequest};

mod calculator {
    include!("gen/acme/calculator/v1/acme.calculator.v1.rs");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::args().nth(1).ok_or("the URL of the calculator is missing")?;
    let client = Client::connect(url)?;
    let mut calculator = CalculatorClient::new(client.channel());

    let answer = calculator.add(AddRequest { a: 20, b: Some(22) }).await?;
    println!("20 + 22 = {}", answer.get_ref().result);

    // The call was a task of its own, with its log.
    let task_id = answer.metadata().get("x-task-id").ok_or("no task is named")?;
    let task = client.get(task_id.to_str()?).await?;
    println!("{:?}", task.state());

    // After an interruption the stream continues, and no response is received twice.
    let name = "steps".to_owned();
    let mut totals = calculator.count(CountRequest { name, times: 3 }).await?.into_inner();
    while let Some(total) = totals.message().await? {
        println!("{}", total.result);
    }

    let nameless = AccumulateRequest {
        amount: 1,
        ..Default::default()
    };
    if let Err(status) = calculator.accumulate(nameless).await {
        let error = Error::from(status);
        if error.reason() != reason::TOOL_REJECTED {
            return Err(error.into());
        }
        for violation in error.violations() {
            println!("{}: {}", violation.field, violation.description);
        }
    }
    Ok(())
}
