#!/bin/sh
# Asks the coordinator of the vacation mesh: clients/java/example.sh REGISTRY_URL [--to PLACE] [--nights N] [--yes]
# Needs `mvn -q -ntp -f clients/java/pom.xml package -DskipTests` before.
exec "$(dirname "$0")/programs/run.sh" io.github.protolink_grpc.example.Vacation "$@"
