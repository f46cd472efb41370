#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Makes what is published of a release: packaging/release.sh, as root, in a clone whose commit has the tag vVERSION.
#
#   tag, version, chapter of CHANGELOG.md agree? ─► packages ─► OCI images ─► list of what is inside ─► sums ─► target/release-VERSION
#
#   DEB_MAINTAINER="Name <address>"   to whom users of the packages may write
#   RELEASE_ARCHES="amd64 arm64"      architectures; by default this machine's
#   RELEASE_KEY=ID                    signs the sums with this key of GnuPG
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# git refuses folders of others to root.
git() { command git -c safe.directory="$PWD" "$@"; }
fail() {
	echo "packaging/release.sh: $1" >&2
	exit 2
}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
lab=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' lab/src/diolkos_lab/__init__.py)
# The chapter of this version, without its heading.
notes() { awk -v version="$version" '/^## /{ mine = $2 == version; next } mine' CHANGELOG.md; }

# --- is it a release?

[ "$(id -u)" = 0 ] || fail "images need root: sudo make release"
[ "$lab" = "$version" ] || fail "Cargo.toml is of version $version, and lab/src/diolkos_lab/__init__.py of $lab"
git describe --exact-match --match "v$version" HEAD >/dev/null 2>&1 ||
	fail "commit $(git log -1 --format=%h) has no annotated tag v$version: git checkout v$version, or git tag --annotate v$version"
[ -z "$(git status --porcelain)" ] || fail "files differ from tag v$version: git status"
notes | grep -q '[^[:space:]]' || fail "CHANGELOG.md has no chapter $version"
[ -n "${DEB_MAINTAINER-}" ] || fail "set DEB_MAINTAINER=\"Name <user@host.example>\" to whom users of the packages may write"

# --- make it

out=target/release-$version
rm -rf "$out"
mkdir -p "$out"
time=$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
for arch in ${RELEASE_ARCHES:-$(dpkg --print-architecture)}; do
	packaging/tools.sh packaging/deb.sh "$arch"
	packaging/image.sh "$arch"
	cp target/deb/*_"$arch".deb target/image/diolkos_"$version"_"$arch".oci.tar "$out/"
done
cp target/deb/*_all.deb "$out/"
git archive --prefix="diolkos-$version/" HEAD | gzip --no-name --best >"$out/diolkos-$version.tar.gz"
packaging/tools.sh packaging/sbom.py "$version" "$time" diolkos diolkos-cni diolkos-pktgen >"$out/diolkos-$version.spdx.json"
notes >"$out/NOTES.md"
(
	cd "$out"
	sha256sum -- * >SHA256SUMS
	[ -z "${RELEASE_KEY-}" ] || gpg --batch --local-user "$RELEASE_KEY" --armor --detach-sign SHA256SUMS
)
echo "== release $version:"
ls -l "$out"
