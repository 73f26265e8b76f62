from protolink_grpc import Agent

agent = Agent(name="echo", description="Repeats a text.", url="grpc://127.0.0.1:50051")


@agent.tool
def echo(text: str, times: int = 1) -> str:
    """Repeat a text."""
    return " ".join([text] * times)


if __name__ == "__main__":
    print(f"echo: {agent.card.url}, until Ctrl-C", flush=True)
    agent.run()
