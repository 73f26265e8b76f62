//! Calls of a generated client over a channel of the client.

use plgrpc_client::tonic::{Request, Status};
use plgrpc_client::{Client, Code, Error, StubChannel, reason};
use uuid::Uuid;

use crate::{Outcome, expect};
use calculator::calculator_client::CalculatorClient;
use calculator::{AccumulateRequest, AddRequest, CountRequest, DivideRequest};

mod calculator {
    include!("../../examples/gen/acme/calculator/v1/acme.calculator.v1.rs");
}

type Headers<'a> = &'a [(&'static str, &'a str)];

const LOST: (&str, &str) = ("x-lost-answers", "2");

pub async fn call(url: &str) -> Outcome {
    let client = Client::connect(url)?;
    let mut calculator = CalculatorClient::new(client.channel());
    let sum = calculator.add(with(&[LOST], AddRequest { a: 20, b: Some(22) })?).await;
    expect("the sum", sum.map_err(Error::from)?.into_inner().result, 42)?;
    let sum = calculator.add(AddRequest { a: 40, b: None }).await;
    expect(
        "the sum with a default",
        sum.map_err(Error::from)?.into_inner().result,
        42,
    )?;

    let (name, id) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let request = ("x-request-id", id.as_str());
    let mut totals = Vec::new();
    for (amount, headers) in [
        (42, &[LOST] as Headers),
        (0, &[]),
        (1, &[LOST, request]),
        (1, &[request]),
    ] {
        totals.push(accumulated(&mut calculator, &name, amount, headers).await?);
    }
    expect("the totals", totals, [42, 42, 43, 43])?;

    let nameless = accumulated(&mut calculator, "", 1, &[])
        .await
        .err()
        .ok_or("a total has no name")?;
    rejected(&nameless, "name")?;
    let by_zero = calculator
        .divide(DivideRequest {
            dividend: 1.0,
            divisor: 0.0,
        })
        .await;
    let by_zero = by_zero.err().map(Error::from).ok_or("1 was divided by 0")?;
    rejected(&by_zero, "divisor")?;
    let task_id = by_zero.task_id().ok_or("the error names no task")?;
    expect(
        "the id of the task of the error",
        client.get(task_id).await?.id,
        task_id,
    )
}

pub async fn stream(url: &str) -> Outcome {
    let client = Client::connect(url)?;
    let mut calculator = CalculatorClient::new(client.channel());
    let (name, id) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let request = ("x-request-id", id.as_str());
    for (times, headers, wanted) in [
        (50, &[("x-cut-after", "20 10 30")] as Headers, 1..=50),
        (10, &[("x-cut-after", "3"), request], 51..=60),
        (10, &[request], 51..=60),
    ] {
        let totals = counted(&mut calculator, &name, times, headers).await?;
        expect("the totals", totals, wanted.collect::<Vec<_>>())?;
    }
    let total = accumulated(&mut calculator, &name, 0, &[]).await?;
    expect("the total afterwards", total, 60)?;
    let nameless = counted(&mut calculator, "", 1, &[]).await;
    rejected(&nameless.err().ok_or("a total has no name")?, "name")
}

async fn counted(
    calculator: &mut CalculatorClient<StubChannel>,
    name: &str,
    times: i64,
    headers: Headers<'_>,
) -> Result<Vec<i64>, Error> {
    let name = name.to_owned();
    let request = with(headers, CountRequest { name, times })?;
    let mut responses = calculator.count(request).await?.into_inner();
    let mut totals = Vec::new();
    while let Some(response) = responses.message().await? {
        totals.push(response.result);
    }
    Ok(totals)
}

async fn accumulated(
    calculator: &mut CalculatorClient<StubChannel>,
    name: &str,
    amount: i64,
    headers: Headers<'_>,
) -> Result<i64, Error> {
    let name = name.to_owned();
    let request = with(headers, AccumulateRequest { name, amount })?;
    let total = calculator.accumulate(request).await?.into_inner().result;
    Ok(total.unwrap_or_default().value)
}

fn with<M>(headers: Headers<'_>, message: M) -> Result<Request<M>, Error> {
    let mut request = Request::new(message);
    for (name, value) in headers {
        let value = value.parse().map_err(|_| Status::invalid_argument("no header"))?;
        request.metadata_mut().insert(*name, value);
    }
    Ok(request)
}

fn rejected(error: &Error, field: &str) -> Outcome {
    expect("the code", error.code(), Code::InvalidArgument)?;
    expect("the reason", error.reason(), reason::TOOL_REJECTED)?;
    let fields: Vec<_> = error.violations().iter().map(|each| each.field.as_str()).collect();
    expect("the fields", fields, [field])
}
