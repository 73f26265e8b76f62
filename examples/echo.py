from protolink_grpc import Agent

agent = Agent(name="echo", description="Says it again.", url="grpc://127.0.0.1:50051")


@agent.tool
def echo(text: str, times: int = 1) -> str:
    """Say a text, once or several times."""
    return " ".join([text] * times)


if __name__ == "__main__":
    print(f"echo: {agent.card.url}, until Ctrl-C", flush=True)
    agent.run()
