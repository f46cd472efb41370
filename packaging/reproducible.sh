#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Checks that the Debian packages of the last commit do not depend on where and by whom they are built.
#
#   two clones, in other folders, with other crate folders, umask, time zone ─► packaging/deb.sh in each ─► same bytes?
#
# It compiles everything twice. Both clones stay in target/reproducible, to look at what differs.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=$PWD
work=$project/target/reproducible
crates=${CARGO_HOME:-$HOME/.cargo}/registry

rm -rf "$work"
mkdir -p "$work"

build() { # FOLDER, UMASK, TIME ZONE
	local clone=$work/$1
	(
		umask "$2"
		git -c safe.directory="$project" -c safe.directory="$project/.git" clone --quiet --no-hardlinks "$project" "$clone"
		mkdir "$clone.cargo"
		# What is downloaded already is not downloaded again.
		[ ! -d "$crates" ] || cp -r "$crates" "$clone.cargo/registry"
		TZ=$3 CARGO_HOME=$clone.cargo "$clone/packaging/deb.sh"
	)
}

# Lists what packages and programs hold, and shows the first differences.
explain() { # PACKAGE
	local side
	for side in one another-folder; do
		rm -rf "$work/$side.unpacked"
		dpkg-deb --raw-extract "$work/$side/target/deb/$1" "$work/$side.unpacked"
	done
	diff --recursive --brief "$work/one.unpacked" "$work/another-folder.unpacked" || true
	diff <(dpkg-deb --contents "$work/one/target/deb/$1") <(dpkg-deb --contents "$work/another-folder/target/deb/$1") | head -20 || true
}

build one 022 UTC
build another-folder 077 Asia/Kathmandu

different=0
for package in "$work"/one/target/deb/*.deb; do
	name=${package##*/}
	if cmp "$package" "$work/another-folder/target/deb/$name"; then
		echo "the same bytes: $name"
	else
		explain "$name"
		different=1
	fi
done
exit "$different"
