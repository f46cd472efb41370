#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Looks for inputs that break what reads bytes of others, with libFuzzer and the stable toolchain.
#
#   fuzz/run.sh build                     the targets, and their seeds
#   fuzz/run.sh SECONDS [TARGET...]       each target, or these, for so long; FUZZ_SEED=N: from the same draw each time;
#                                         FUZZ_JOBS=N: so many targets at once (default: one for each CPU)
#
#   targets with coverage ─► seeds, fuzz/corpus, what earlier runs reached ─► run ─► an input that breaks it
#
# What breaks a target is written below target/fuzz/broken. Copied to fuzz/corpus/TARGET under a name that says what it
# shows, it is replayed by every `make test`. What runs reached is kept in target/fuzz/reached for the next one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${CARGO_TARGET_DIR:-target}
work=$out/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
programs=$out/$host/fuzz
# Bytes of the longest input; more than 10 s or 2 GiB for one is a fault.
limits=(-max_len=4096 -timeout=10 -rss_limit_mb=2048)
mapfile -t targets < <(sed -n 's|^path = "targets/\(.*\)\.rs"$|\1|p' fuzz/Cargo.toml)

# What `cargo fuzz` asks of the compiler, but for two things. A sanitizer needs a nightly toolchain, and there is no unsafe code
# of ours behind these targets. One codegen unit for each crate takes one CPU for minutes, and makes inputs only 1.0 to 1.8
# times as fast. The profile `fuzz` has debug assertions (Cargo.toml).
coverage=(
	--cfg fuzzing -Cpasses=sancov-module
	-Cllvm-args=-sanitizer-coverage-level=4
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters
	-Cllvm-args=-sanitizer-coverage-pc-table
	-Cllvm-args=-sanitizer-coverage-trace-compares
)

build() {
	# Of the whole workspace, as `cargo test --workspace`, so that crates are compiled once for both.
	cargo build --workspace --locked --target-dir "$out" --example seeds
	"$out/debug/examples/seeds" "$work/seeds"
	# Whatever else compiles the crates of the tests (.ci/run) has nothing to do here.
	RUSTFLAGS="${coverage[*]}" env -u RUSTC_WORKSPACE_WRAPPER cargo build --package diolkos-fuzz --locked --target-dir "$out" \
		--profile fuzz --features libfuzzer --target "$host"
}

folders() { # TARGET: where its inputs are, the first being that to which new ones are added
	mkdir -p "$work/reached/$1" "$work/broken/$1"
	echo "$work/reached/$1"
	echo "$work/seeds/$1"
	[ ! -d "fuzz/corpus/$1" ] || echo "fuzz/corpus/$1"
}

run() { # SECONDS TARGET
	local log=$work/$2.log inputs
	mapfile -t inputs < <(folders "$2")
	if ! "$programs/$2" "${limits[@]}" -max_total_time="$1" -seed="${FUZZ_SEED:-0}" -print_final_stats=1 \
		-artifact_prefix="$work/broken/$2/" "${inputs[@]}" >"$log" 2>&1 </dev/null; then
		printf '== Fuzzing %s for %s s ... broken\n' "$2" "$1"
		grep -a -A 4 'panicked at\|ERROR: libFuzzer' "$log" || tail -n 40 "$log"
		printf '== failed: %s. The input is below %s\n' "$2" "$work/broken/$2"
		return 1
	fi
	printf '== Fuzzing %s for %s s ... %s inputs\n' "$2" "$1" \
		"$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
}

case ${1-} in
build)
	build
	;;
[0-9]*)
	seconds=$1
	shift
	[ $# -gt 0 ] || set -- "${targets[@]}"
	jobs=${FUZZ_JOBS:-$(nproc)} running=0 broken=0
	# Jobs in the background do not hear Ctrl-C by themselves.
	trap 'trap - INT TERM; kill 0' INT TERM
	for target; do
		if [ "$running" -ge "$jobs" ]; then
			wait -n || broken=1
			running=$((running - 1))
		fi
		run "$seconds" "$target" &
		running=$((running + 1))
	done
	for ((; running > 0; running--)); do wait -n || broken=1; done
	exit "$broken"
	;;
*)
	sed -n '5,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
