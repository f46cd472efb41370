#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Makes an OCI image with the Debian package that `make deb` has built: packaging/image.sh [ARCHITECTURE]. As root.
#
#   the distribution's packages ─► mmdebstrap, with target/deb/diolkos_*.deb ─► umoci ─► target/image/diolkos_TAG_ARCH.oci.tar
#
# No container engine takes part, and no image is pulled: packaging/Containerfile is for those who have both. `podman load`,
# `skopeo copy oci-archive:FILE ...` and `ctr image import` read the file.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
arch=${1:-$(dpkg --print-architecture)}
suite=${DIOLKOS_SUITE:-bookworm}
out=target/image

fail() {
	echo "packaging/image.sh: $1" >&2
	exit 2
}
[ "$(id -u)" = 0 ] || fail "installing into the image needs root: sudo make image"
shopt -s nullglob
found=(target/deb/diolkos_*_"$arch".deb)
[ "${#found[@]}" = 1 ] || fail "target/deb has ${#found[@]} packages diolkos for $arch, and one is needed: make deb ARCH=$arch"
package=${found[0]}
version=$(dpkg-deb --field "$package" Version)
SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf "$out/layout" "$out/root.tar"
mkdir -p "$out"
# Without documentation but for licences, and without lists of packages: a container is made anew, never upgraded.
mmdebstrap --quiet --mode=root --variant=minbase --architectures="$arch" --include=ca-certificates \
	--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
	--customize-hook="copy-in '$package' /tmp" \
	--customize-hook="chroot \"\$1\" apt-get install --yes --no-install-recommends '/tmp/${package##*/}'" \
	--customize-hook="rm \"\$1/tmp/${package##*/}\"; : >\"\$1/etc/machine-id\"" \
	"$suite" "$out/root.tar"

# Tags and file names have fewer characters than versions of packages.
tag=${version//[^A-Za-z0-9._-]/-}
image=$out/layout:$tag
umoci init --layout "$out/layout"
umoci new --image "$image"
umoci raw add-layer --image "$image" --history.comment "Debian $suite and diolkos $version" "$out/root.tar"
umoci config --image "$image" --architecture "$arch" --os linux --created "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" \
	--config.entrypoint /usr/bin/diolkos --config.cmd run --config.cmd --config --config.cmd /etc/diolkos/nat64.toml \
	--config.label "org.opencontainers.image.version=$version" \
	--config.label "org.opencontainers.image.licenses=(Apache-2.0 OR MIT) AND (GPL-2.0-only OR BSD-2-Clause)"
umoci gc --layout "$out/layout"
rm "$out/root.tar"
archive=$out/diolkos_${tag}_$arch.oci.tar
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$out/layout" -cf "$archive" .
rm -rf "$out/layout"
echo "$archive"
