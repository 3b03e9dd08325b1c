#!/usr/bin/env bash
# Trains the sample nets at every level side by side and prints the table. Arguments go to the benchmark (try --help).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_for_build
configure build
build build samples/bench
exec build/samples/bench "$@"
