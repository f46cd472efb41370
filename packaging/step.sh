#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a command as one step of a build: one line says what is done and how long it took; what the command
# prints goes to a log, which is shown if the command fails.
#
#   packaging/step.sh "What is done" LOG COMMAND...
set -euo pipefail

what=$1 log=$2
shift 2
mkdir -p "$(dirname "$log")"

printf '== %s ... ' "$what"
if "$@" >"$log" 2>&1 </dev/null; then
	printf '%d s\n' "$SECONDS"
else
	status=$?
	printf 'failed (%d), its output follows\n' "$status"
	cat "$log"
	printf '== failed: %s. The output above is kept in %s\n' "$what" "$log"
	exit "$status"
fi
