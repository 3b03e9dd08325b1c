#!/usr/bin/env bash
# Trains the sample nets at every level and prints a table. Arguments are passed to the bench (see
# --help).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_for_build
configure build
build build samples/bench
exec build/samples/bench "$@"
