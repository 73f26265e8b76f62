#!/bin/sh
# Runs the conformance program: plgrpc conformance run -- clients/java/conformance.sh
# Needs `mvn -q -ntp -f clients/java/pom.xml package -DskipTests` before.
exec "$(dirname "$0")/programs/run.sh" io.github.protolink_grpc.conformance.Main "$@"
