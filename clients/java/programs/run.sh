#!/bin/sh
# run.sh CLASS ARGUMENTS...: starts a program of this folder; the flags are those of a short life.
set -eu
target="$(cd "$(dirname "$0")" && pwd)/target"
class="$1"
shift
if [ ! -f "$target/classpath.txt" ]; then
  echo "not built yet: mvn -q -ntp -f clients/java/pom.xml package -DskipTests" >&2
  exit 2
fi
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp "$target/classes:$(cat "$target/classpath.txt")" "$class" "$@"
