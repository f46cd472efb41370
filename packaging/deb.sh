#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds the Debian packages diolkos, diolkos-pktgen and diolkos-lab of what git knows here: target/deb/*.deb.
#
#   packaging/deb.sh               for this machine
#   packaging/deb.sh arm64         for another architecture of Debian's
#   DIOLKOS_BIN=FOLDER ...         packs programs that are built already (diolkos, diolkos-pktgen, manual/)
#
#   programs and pages ─► tree of the sources ─► debhelper ─► .deb
#
# All times are the commit's (SOURCE_DATE_EPOCH), and paths of this machine do not get into compiled Rust and C; crates/sys/build.rs
# keeps them out of eBPF programs. `make reproducible` compares. DEB_MAINTAINER="Name <address>" says who answers for the packages.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=$PWD
arch=${1:-$(dpkg --print-architecture)}
out=$project/target/deb
stage=$out/tree
maintainer=${DEB_MAINTAINER:-The Diolkos authors <maintainers@diolkos.invalid>}

# --- programs and pages

triple() { case $1 in amd64) echo x86_64 ;; arm64) echo aarch64 ;; esac }
target=$(triple "$arch")-unknown-linux-gnu

# One set of flags and one folder for each platform.
compile() { # TRIPLE, PACKAGES
	local home=${CARGO_HOME:-$HOME/.cargo} target=$1
	shift
	# C libraries inside of crates are compiled, too.
	RUSTFLAGS="--remap-path-prefix=$project=/usr/src/diolkos --remap-path-prefix=$home=/usr/src/cargo ${RUSTFLAGS-}" \
		CFLAGS="-ffile-prefix-map=$project=/usr/src/diolkos -ffile-prefix-map=$home=/usr/src/cargo ${CFLAGS-}" \
		CARGO_TARGET_DIR=$out/cargo cargo build --release --locked --target "$target" "${@/#/--package=}"
}

build() {
	local own programs=(diolkos diolkos-pktgen) manual=diolkos-manual
	own=$(triple "$(dpkg --print-architecture)")-unknown-linux-gnu
	DIOLKOS_BIN=$out/bin-$arch
	rm -rf "$DIOLKOS_BIN"
	mkdir -p "$DIOLKOS_BIN"
	# The pages are written by a program that runs here, whatever the others are for.
	if [ "$target" = "$own" ]; then programs+=("$manual"); else compile "$own" "$manual"; fi
	compile "$target" "${programs[@]}"
	"$out/cargo/$own/release/$manual" "$DIOLKOS_BIN/manual"
	cp "$out/cargo/$target/release/diolkos" "$out/cargo/$target/release/diolkos-pktgen" "$DIOLKOS_BIN/"
}
[ -n "${DIOLKOS_BIN-}" ] || build

# --- tree of the sources

rm -rf "$stage"
mkdir -p "$stage/built"
git -c safe.directory="$project" ls-files -z | tar --null --files-from=- --create | tar --extract --directory "$stage"
cp "$DIOLKOS_BIN/diolkos" "$DIOLKOS_BIN/diolkos-pktgen" "$stage/built/"
cp -r "$DIOLKOS_BIN/manual" "$stage/built/manual"
(
	cd "$stage/built/manual"
	mkdir diolkos diolkos-pktgen
	mv man/diolkos-pktgen* diolkos-pktgen/
	mv man/* diolkos/
)
packaging/third_party.py --target "$target" diolkos diolkos-pktgen >"$stage/built/third-party-notices"

commit() { git -c safe.directory="$project" log -1 --format="$1"; }
SOURCE_DATE_EPOCH=$(commit %ct)
export SOURCE_DATE_EPOCH
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
# Between releases, commits follow each other by their time.
if ! git -c safe.directory="$project" describe --exact-match --match "v$version" HEAD >/dev/null 2>&1; then
	version="$version~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M).$(commit %h)"
fi
version=${DEB_VERSION:-$version}

debian=$stage/debian
cp -r packaging/debian "$debian"
# Whatever other parts of the project have for a system goes where the system looks for it.
place() { # FOLDER BELOW packaging/, WHERE, PATTERN
	local file
	for file in packaging/"$1"/$3; do
		[ ! -f "$file" ] || echo "$file $2" >>"$debian/diolkos.install"
	done
}
place systemd usr/lib/systemd/system '*.service'
place systemd usr/lib/systemd/system '*.socket'
place systemd usr/lib/diolkos after-stop
place networkd usr/lib/systemd/network '*.network'
place networkmanager usr/lib/NetworkManager/dispatcher.d '[0-9]*'
place varlink usr/share/varlink '*.varlink'
place dbus usr/share/dbus-1/system.d '*.conf'
place prometheus usr/share/doc/diolkos/examples/prometheus '*.yml'
place grafana usr/share/doc/diolkos/examples/grafana '*.json'

fill() { awk -v file="$2" -v mark="@$1@" '$0 == mark { while ((getline line < file) > 0) print (line == "" ? " ." : " " line); next } { print }'; }
fill MIT LICENSE-MIT <packaging/debian/copyright | fill BSD bpf/LICENSE-BSD-2-Clause >"$debian/copyright"
sed -i "s/@MAINTAINER@/$maintainer/" "$debian/control"
cat >"$debian/changelog" <<END
diolkos ($version) unstable; urgency=medium

  * Built from commit $(commit %h).
  * /usr/share/doc/diolkos/CHANGELOG.md says what is new.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# --- debhelper

rm -f "$out"/*.deb "$out"/*.buildinfo "$out"/*.changes
# Architecture-independent packages are built once, by the machine's own architecture.
what=binary
[ "$arch" = "$(dpkg --print-architecture)" ] || what=any
(
	cd "$stage"
	# The tools of the build were checked by packaging/setup.sh; Rust may be another one than the distribution's.
	export DEB_BUILD_OPTIONS="noautodbgsym nocheck ${DEB_BUILD_OPTIONS-}"
	dpkg-buildpackage --no-check-builddeps --no-sign --no-pre-clean --host-arch="$arch" --build="$what"
)
rm -rf "$stage"
sha256sum "$out"/*.deb
