"""What the demos share: the processes of a mesh, the models, and the output and questions at the terminal."""
