#!/bin/sh
# Calls a typed calculator: clients/java/calculator.sh URL
# Needs `mvn -q -ntp -f clients/java/pom.xml package -DskipTests` before.
exec "$(dirname "$0")/programs/run.sh" io.github.protolink_grpc.example.Calculator "$@"
