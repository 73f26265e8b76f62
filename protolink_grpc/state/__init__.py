"""What an agent remembers between tasks: storage and the state modules that use it."""
