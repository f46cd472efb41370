#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds the Debian packages diolkos, diolkos-pktgen, diolkos-switch (amd64 only) and diolkos-lab of what git knows here: target/deb/*.deb.
#
#   packaging/deb.sh               for this machine
#   packaging/deb.sh arm64         for arm64, from another machine (packaging/setup.sh arm64 installs what that needs)
#   DIOLKOS_BIN=FOLDER ...         packs programs that are built already (diolkos, diolkos-cni, diolkos-pktgen, manual/)
#
#   programs and pages ─► tree of the sources ─► debhelper ─► .deb
#
# All times are the commit's (SOURCE_DATE_EPOCH), and paths of this machine do not get into compiled Rust and C; crates/fastpath/build.rs
# keeps them out of eBPF programs. `make reproducible` compares. DEB_MAINTAINER="Name <address>" says who answers for the packages.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=$PWD
own_arch=$(dpkg --print-architecture)
arch=${1:-$own_arch}
out=$project/target/deb
stage=$out/tree
# An address that cannot exist: what a user builds for himself asks nobody for help.
nobody="The Diolkos authors <maintainers@diolkos.invalid>"
maintainer=${DEB_MAINTAINER:-$nobody}

fail() {
	echo "packaging/deb.sh: $1" >&2
	exit 2
}
commit() { git -c safe.directory="$project" log -1 --format="$1"; }

# --- what is asked for

[ "$own_arch" = amd64 ] || [ "$own_arch" = "$arch" ] || fail "packages for another architecture are built on amd64, and this is $own_arch"
one_line='^[^<>[:cntrl:]]*[^<>[:cntrl:][:space:]] <[^<>[:cntrl:][:space:]]+@[^<>[:cntrl:][:space:]]+>$'
[[ $maintainer =~ $one_line ]] || fail "DEB_MAINTAINER: \"$maintainer\" is not a name and an address; write \"Name <user@host.example>\""
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
if git -c safe.directory="$project" describe --exact-match --match "v$version" HEAD >/dev/null 2>&1; then
	[ "$maintainer" != "$nobody" ] || fail "commit $(commit %h) is release $version: set DEB_MAINTAINER=\"Name <user@host.example>\" to whom its users may write"
else
	# Between releases, commits follow each other by their time.
	version="$version~$(date -u -d "@$(commit %ct)" +%Y%m%d%H%M).$(commit %h)"
fi
version=${DEB_VERSION:-$version}

# --- programs and pages

triple() { # ARCHITECTURE OF DEBIAN
	case $1 in
	amd64) echo x86_64-unknown-linux-gnu ;;
	arm64) echo aarch64-unknown-linux-gnu ;;
	*) fail "\"$1\" is not an architecture of these packages; they are for amd64 and arm64" ;;
	esac
}
target=$(triple "$arch")
own=$(triple "$own_arch")
if [ "$target" != "$own" ]; then
	# The compiler of Debian's name, with which debhelper strips, too.
	export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
fi

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
	local programs=(diolkos diolkos-cni diolkos-pktgen) manual=diolkos-manual
	DIOLKOS_BIN=$out/bin-$arch
	rm -rf "$DIOLKOS_BIN"
	mkdir -p "$DIOLKOS_BIN"
	# The pages are written by a program that runs here, whatever the others are for.
	if [ "$target" = "$own" ]; then programs+=("$manual"); else compile "$own" "$manual"; fi
	compile "$target" "${programs[@]}"
	"$out/cargo/$own/release/$manual" "$DIOLKOS_BIN/manual"
	cp "$out/cargo/$target/release/"{diolkos,diolkos-cni,diolkos-pktgen} "$DIOLKOS_BIN/"
}
[ -n "${DIOLKOS_BIN-}" ] || build

# --- tree of the sources

rm -rf "$stage"
mkdir -p "$stage/built"
git -c safe.directory="$project" ls-files -z | tar --null --files-from=- --create | tar --extract --directory "$stage"
cp "$DIOLKOS_BIN/diolkos" "$DIOLKOS_BIN/diolkos-cni" "$DIOLKOS_BIN/diolkos-pktgen" "$stage/built/"
cp -r "$DIOLKOS_BIN/manual" "$stage/built/manual"
# It is linked with the distribution's DPDK, of whose version it needs exactly the libraries.
if [ "$arch" = amd64 ]; then
	make -C switch OUT="$stage/built" CFLAGS="-O2 -g -ffile-prefix-map=$project=/usr/src/diolkos ${CFLAGS-}"
fi
(
	cd "$stage/built/manual"
	mkdir diolkos diolkos-pktgen
	mv man/diolkos-pktgen* diolkos-pktgen/
	mv man/* diolkos/
)
packaging/third_party.py --target "$target" diolkos diolkos-cni diolkos-pktgen >"$stage/built/third-party-notices"

SOURCE_DATE_EPOCH=$(commit %ct)
export SOURCE_DATE_EPOCH

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
place systemd usr/lib/diolkos option108
place networkd usr/lib/systemd/network '*.network'
place dbus usr/share/dbus-1/system.d '*.conf'
# Pages lie in one folder there, and link what packages have.
packaging/doc_links.py "$stage"

fill() { awk -v file="$2" -v mark="@$1@" '$0 == mark { while ((getline line < file) > 0) print (line == "" ? " ." : " " line); next } { print }'; }
fill MIT LICENSE-MIT <packaging/debian/copyright | fill BSD bpf/LICENSE-BSD-2-Clause >"$debian/copyright"
awk -v maintainer="${maintainer//\\/\\\\}" '$2 == "@MAINTAINER@" { print $1, maintainer; next } { print }' packaging/debian/control >"$debian/control"
cat >"$debian/changelog" <<END
diolkos ($version) unstable; urgency=medium

  * Built from commit $(commit %h).
  * /usr/share/doc/diolkos/CHANGELOG.md says what is new.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# --- debhelper

# Packages of the other architecture stay. Architecture-independent ones are built once, for the machine's own.
rm -f "$out"/*_"$arch".deb "$out"/*_"$arch".buildinfo "$out"/*_"$arch".changes
what=any
if [ "$target" = "$own" ]; then
	rm -f "$out"/*_all.deb
	what=binary
fi
(
	cd "$stage"
	# The tools of the build were checked by packaging/setup.sh; Rust may be another one than the distribution's.
	export DEB_BUILD_OPTIONS="noautodbgsym nocheck ${DEB_BUILD_OPTIONS-}"
	dpkg-buildpackage --no-check-builddeps --no-sign --no-pre-clean --host-arch="$arch" --build="$what"
)
rm -rf "$stage"
sha256sum "$out"/*_"$arch".deb
