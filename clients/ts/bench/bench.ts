/**
 * How fast this client is: `node dist/bench.js URL SECONDS`, against an agent that answers any text and makes N artifacts of
 * `make N`. Prints one line of JSON.
 */

import { connect } from "@protolink-grpc/client/node";

const IN_FLIGHT = 16;
const ARTIFACTS = 20_000;

const [url, seconds] = process.argv.slice(2);
if (!url || !(Number(seconds) > 0)) {
  console.error("usage: node dist/bench.js URL SECONDS");
  process.exit(2);
}
const client = connect(url);

async function requestsPerSecond(): Promise<number> {
  const text = "x".repeat(100);
  await client.send(text);
  const began = performance.now();
  const end = began + Number(seconds) * 1000;
  let answered = 0;
  const sender = async () => {
    for (; performance.now() < end; answered++) {
      await client.send(text);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, sender));
  return answered / ((performance.now() - began) / 1000);
}

async function eventsPerSecond(): Promise<[number, number]> {
  const began = performance.now();
  let events = 0;
  for await (const _ of client.stream(`make ${ARTIFACTS}`)) {
    events++;
  }
  return [events / ((performance.now() - began) / 1000), events];
}

const requests = await requestsPerSecond();
const [rate, events] = await eventsPerSecond();
console.log(JSON.stringify({ requests_per_s: Math.round(requests), events_per_s: Math.round(rate), events }));
client.close();
