#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a command with the project's tools on PATH, as the user whose files it writes.
#
#   packaging/tools.sh COMMAND...          as the owner of this clone, so that `sudo make` leaves no file of root's in it
#   packaging/tools.sh --root COMMAND...   as root, which network namespaces need; what it writes here becomes the owner's
#   packaging/tools.sh --rust              prints the folder of the Rust toolchain that is used; fails if none is new enough
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
owner=$(stat -c %U "$project")
[ "$owner" != UNKNOWN ] || owner=$(id -un)
oldest_rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$project/Cargo.toml")
# Ordinary users of Debian do not have these, and tools that are there would seem to be missing.
PATH=$PATH:/usr/sbin:/sbin

home_of() { getent passwd "$1" | cut -d: -f6; }

as_owner() {
	if [ "$(id -u)" = 0 ] && [ "$owner" != root ]; then
		setpriv --reuid="$owner" --regid="$(id -g "$owner")" --init-groups \
			env HOME="$(home_of "$owner")" USER="$owner" LOGNAME="$owner" "$@"
	else
		"$@"
	fi
}

# Folders that may hold a toolchain: what the user has chosen, rustup's, and that of Ubuntu's versioned packages.
# `sudo` takes rustup's folder off PATH, so it is looked for by name.
rust_folders() {
	if command -v cargo >/dev/null; then dirname "$(command -v cargo)"; fi
	echo "$HOME/.cargo/bin"
	echo "$(home_of root)/.cargo/bin"
	printf '%s\n' /usr/lib/rust-*/bin | sort -rV
}

new_enough() { # COMMAND: its version is not below the workspace's rust-version
	local version
	version=$("$1" --version 2>/dev/null | cut -d' ' -f2) && [ -n "$version" ] &&
		printf '%s\n' "$oldest_rust" "$version" | sort -CV
}

find_rust() {
	local folder
	while read -r folder; do
		if new_enough "$folder/rustc" && new_enough "$folder/cargo"; then
			echo "$folder"
			return
		fi
	done < <(rust_folders)
	return 1
}

give_back() {
	[ "$owner" = root ] || find "$project" -xdev -path "$project/.git" -prune -o -user root -exec chown -h "$owner:" {} +
}

case ${1-} in
--rust)
	as_owner "$BASH" -c "set -euo pipefail; oldest_rust=$oldest_rust
		$(declare -f home_of rust_folders new_enough find_rust); find_rust"
	;;
--root)
	shift
	if [ "$(id -u)" != 0 ]; then
		echo "This needs root, because it builds network namespaces. Run it with sudo." >&2
		exit 3
	fi
	rust=$("$0" --rust) || rust=
	# Cargo's folders are the owner's, so that nothing is built again.
	owners_home=$(home_of "$owner")
	export CARGO_HOME=${CARGO_HOME:-$owners_home/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$owners_home/.rustup}
	# Root works for the owner, whether by sudo or not: the lab writes into folders of nobody else.
	SUDO_UID=${SUDO_UID:-$(id -u "$owner")}
	export SUDO_UID
	trap give_back EXIT
	PATH=${rust:+$rust:}$PATH "$@"
	;;
"")
	sed -n '3,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
*)
	rust=$("$0" --rust) || rust=
	as_owner env PATH="${rust:+$rust:}$PATH" "$@"
	;;
esac
