#!/bin/sh
# A chat with an agent, line by line: clients/java/chat.sh URL [SESSION]
# Needs `mvn -q -ntp -f clients/java/pom.xml package -DskipTests` before.
exec "$(dirname "$0")/programs/run.sh" io.github.protolink_grpc.example.Chat "$@"
