#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Brings this machine to the point where the project builds and its tests run. Does nothing for what is there.
#
#   packaging/setup.sh build   what building needs, and the Python environment
#   packaging/setup.sh demo    and what `make demo` measures with
#   packaging/setup.sh run     and what all other studies and the tests need
#   packaging/setup.sh switch  or what `make switch` needs: DPDK
#   packaging/setup.sh lint    or what `make lint` and `make format` need
#   packaging/setup.sh fuzz    or what `make fuzz` needs
#   packaging/setup.sh kernels or what `make kernels` needs: guests
#   packaging/setup.sh deb     or what `make deb` needs: tools of Debian's packages
#   packaging/setup.sh arm64   and what `make deb ARCH=arm64` needs: a compiler and libraries for arm64, as a foreign architecture
#
#   wanted ─► look ─► install from the distribution ─► look again ─► Python environment
#
# Programs and libraries come from the distribution's packages (apt), Python packages from the index that pip is set up
# with. Nothing else is downloaded, no service is started or enabled.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=packaging/tools.sh step=packaging/step.sh
logs=target/log
PATH=$PATH:/usr/sbin:/sbin
purpose=${1-}

# --- wanted: a test, and the packages of Debian and Ubuntu that make it true

missing=()  # what a person calls it
packages=() # what apt calls it; a name with @ differs between releases

want() { # NAME, TEST, PACKAGES
	eval "$2" >/dev/null 2>&1 && return
	missing+=("$1")
	read -ra names <<<"$3"
	packages+=("${names[@]}")
}

header() { echo "#include <$1>" | cc -E -x c -; }

python_is_enough() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; }

look() {
	missing=() packages=()
	wanted_to_build
	case $purpose in demo | run) wanted_for_demo ;; esac
	case $purpose in run | switch | deb) wanted_for_switch ;; esac
	[ "$purpose" != run ] || wanted_to_run
	[ "$purpose" != lint ] || wanted_to_lint
	[ "$purpose" != fuzz ] || wanted_to_fuzz
	[ "$purpose" != kernels ] || wanted_for_guests
	case $purpose in deb | arm64) wanted_for_packages ;; esac
	[ "$purpose" != arm64 ] || wanted_for_arm64
}

# Rust, and a C compiler for libbpf, which is compiled with it. The lab needs Python only.
wanted_to_build() {
	want "Rust $(oldest_rust) or newer" "$tools --rust" "@rust"
	want "a C compiler" "header stdio.h" "gcc libc6-dev"
	want "the kernel's headers" "header linux/bpf.h" "linux-libc-dev"
	want "libelf" "header libelf.h" "libelf-dev"
	want "zlib" "header zlib.h" "zlib1g-dev"
	want "pkg-config" "pkg-config --version" "pkg-config"
	want "clang for BPF" "clang -print-targets | grep -w bpf" "clang"
	want "libbpf's headers" "header bpf/bpf_helpers.h" "libbpf-dev"
	want "certificate authorities" 'ls -A /etc/ssl/certs | grep .' "ca-certificates"
	want "Python 3.11 or newer with venv" "python_is_enough" "python3 python3-venv"
}

# What the study of `make demo` builds networks from, loads them with and compares. Who tries the demo has not asked for
# programs that manage the network of the host or let others log in.
wanted_for_demo() {
	want "ip and tc" "command -v ip && command -v tc" "iproute2"
	want "nft" "command -v nft" "nftables"
	want "ping" "command -v ping" "iputils-ping"
	want "ethtool" "command -v ethtool" "ethtool"
	want "ps and sysctl" "command -v ps && command -v sysctl" "procps"
	want "iperf3" "command -v iperf3" "iperf3"
	want "tayga, which does not start" "command -v tayga" "tayga"
	want "unbound, which does not start" "command -v unbound" "unbound"
	want "nginx, which does not start" "command -v nginx" "nginx-light"
	want "curl" "command -v curl" "curl"
	want "dnsperf" "command -v dnsperf" "dnsperf"
}

# What the tests and the other studies need besides.
wanted_to_run() {
	want "systemd" "command -v systemctl && [ -e /lib/systemd/systemd ]" "systemd"
	want "ufw, which stays disabled" "command -v ufw" "ufw"
	want "firewalld, which does not start" "command -v firewalld" "firewalld"
	want "NetworkManager, which does not start" "command -v NetworkManager" "network-manager"
	want "dhcpcd, which does not start" "command -v dhcpcd" "dhcpcd-base"
	want "dnsmasq, which does not start" "command -v dnsmasq" "dnsmasq-base"
	want "radvd, which does not start" "command -v radvd" "radvd"
	want "D-Bus" "command -v dbus-daemon" "dbus-daemon"
	want "OpenSSH" "command -v ssh && command -v sshd" "openssh-client openssh-server"
	want "iptables" "command -v ip6tables-legacy && command -v ip6tables-nft" "iptables"
	want "WireGuard" "command -v wg && command -v wireguard-go" "wireguard-tools wireguard-go"
	want "dig" "command -v dig" "bind9-dnsutils"
	want "Prometheus" "command -v prometheus && command -v promtool" "prometheus"
	want "traceroute" "command -v traceroute" "traceroute"
	# Ubuntu has it as a snap only. Tests of the page then say what is missing.
	grep -qsx 'ID=ubuntu' /etc/os-release ||
		want "chromium, for tests of the page" "command -v chromium && command -v chromedriver" "chromium chromium-driver"
	want "tcpdump" "command -v tcpdump" "tcpdump"
	want "tshark and editcap" "command -v tshark && command -v editcap" "tshark wireshark-common"
	want "nfdump" "command -v nfcapd && command -v nfdump" "nfdump"
	want "rsyslog" "command -v rsyslogd" "rsyslog"
	want "journald" "test -x /lib/systemd/systemd-journald" "systemd"
	want "etcd, which does not start" "command -v etcd && command -v etcdctl" "etcd-server etcd-client"
	want "plugins for CNI" "test -x /usr/lib/cni/ptp && test -x /usr/lib/cni/host-local" "containernetworking-plugins"
	want "frr" "test -x /usr/lib/frr/bgpd" "frr"
	want "OpenSSL" "command -v openssl" "openssl"
	want "libtorrent for Python" "/usr/bin/python3 -c 'import libtorrent'" "python3-libtorrent"
	want "coturn" "command -v turnserver && command -v turnutils_natdiscovery" "coturn"
}

# The switch that runs the P4 program.
wanted_for_switch() {
	want "DPDK 22.11 or newer" "pkg-config --atleast-version=22.11 libdpdk" "libdpdk-dev"
}

wanted_to_lint() {
	want "rustfmt" "$tools cargo fmt --version" "@rustfmt"
	want "clippy" "$tools cargo clippy --version" "@clippy"
	want "clang-format" "command -v clang-format" "clang-format"
	want "shellcheck" "command -v shellcheck" "shellcheck"
}

# libFuzzer is compiled with its targets.
wanted_to_fuzz() {
	want "a C++ compiler" "echo '#include <cstdint>' | c++ -E -x c++ -" "g++"
}

# Kernels themselves are downloaded and unpacked by the checks; zstd unpacks some of them.
wanted_for_guests() {
	want "QEMU for x86" "command -v qemu-system-x86_64" "qemu-system-x86"
	want "depmod and modprobe" "command -v depmod && command -v modprobe" "kmod"
	want "zstd" "command -v zstd" "zstd"
}

wanted_for_packages() {
	want "debhelper" "command -v dh" "debhelper"
	want "dpkg-buildpackage" "command -v dpkg-buildpackage" "dpkg-dev build-essential"
	want "lintian" "command -v lintian" "lintian"
	want "mmdebstrap" "command -v mmdebstrap" "mmdebstrap"
	want "umoci, for images" "command -v umoci" "umoci"
}

# Programs for arm64 are linked with Debian's own libraries, so that dpkg knows what they depend on.
wanted_for_arm64() {
	local libraries=/usr/lib/aarch64-linux-gnu
	want "a compiler for arm64" "command -v aarch64-linux-gnu-gcc" "gcc-aarch64-linux-gnu"
	want "the C library of arm64" "[ -e $libraries/crt1.o ]" "libc6-dev:arm64"
	want "libelf of arm64" "[ -e $libraries/libelf.so ]" "libelf-dev:arm64"
	want "zlib of arm64" "[ -e $libraries/libz.so ]" "zlib1g-dev:arm64"
	want "Rust's library of arm64" "has_rust_library aarch64-unknown-linux-gnu" "@rust-library:arm64"
	want "QEMU for programs of arm64" "command -v qemu-aarch64-static" "qemu-user-static"
}

has_rust_library() { [ -d "$("$("$tools" --rust)/rustc" --print sysroot)/lib/rustlib/$1/lib" ]; }

oldest_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml; }

# --- install from the distribution

# The suffix of this distribution's newest Rust packages that are new enough: "" (rustc), "-web" (Debian 12),
# "-1.89" (Ubuntu 24.04).
rust_suffix() {
	local suffix version
	for suffix in "" -web $(apt-cache pkgnames rustc-1. | sed 's/^rustc//' | sort -rV); do
		version=$(apt-cache policy "rustc$suffix" | sed -n 's/^ *Candidate: *//p')
		if [ -n "$version" ] && [ "$version" != "(none)" ] && dpkg --compare-versions "$version" ge "$(oldest_rust)" &&
			apt-cache show "cargo$suffix" >/dev/null 2>&1; then
			echo "$suffix"
			return
		fi
	done
	return 1
}

# The same of the toolchain that is there; fails if that is not the distribution's.
installed_suffix() {
	dpkg -S "$(readlink -f "$("$tools" --rust)/rustc")" 2>/dev/null | sed -n 's/^rustc\([^:]*\):.*/\1/p' | grep ^ || return 1
}

# Replaces the names with @, which differ between releases.
resolve() {
	local suffix name resolved=()
	for name in "${packages[@]}"; do
		case $name in
		@rust)
			if ! suffix=$(rust_suffix); then
				echo "No package of this distribution has Rust $(oldest_rust) or newer. Install it in another way," \
					"so that cargo is on PATH, and run this again." >&2
				return 1
			fi
			resolved+=("rustc$suffix" "cargo$suffix")
			;;
		@rustfmt) if suffix=$(lint_suffix); then resolved+=("rustfmt$suffix"); fi ;;
		@clippy) if suffix=$(lint_suffix); then resolved+=("rust$suffix-clippy"); fi ;;
		@rust-library:*) if suffix=$(lint_suffix); then resolved+=("libstd-rust$suffix-dev${name#*-library}"); fi ;;
		*) resolved+=("$name") ;;
		esac
	done
	packages=("${resolved[@]}")
}

lint_suffix() { if "$tools" --rust >/dev/null; then installed_suffix; else rust_suffix; fi; }

# Packages of network programs like to start themselves. While this runs, they may not: policy-rc.d is what Debian asks.
# It recognises its installation by a variable, so that another one that happens to run meanwhile is not held back.
policy=/usr/sbin/policy-rc.d
forbid_starting() {
	allow_starting
	if [ -e "$policy" ]; then mv "$policy" "$policy.before-diolkos"; fi
	cat >"$policy" <<-END
		#!/bin/sh
		# Put here by diolkos' set-up for as long as it installs packages. It may be removed at any other time.
		[ -z "\${DIOLKOS_SETUP-}" ] || exit 101
		[ ! -x $policy.before-diolkos ] || exec $policy.before-diolkos "\$@"
	END
	chmod +x "$policy"
}
allow_starting() {
	! grep -qs "^# Put here by diolkos" "$policy" || rm "$policy"
	if [ -e "$policy.before-diolkos" ] && [ ! -e "$policy" ]; then mv "$policy.before-diolkos" "$policy"; fi
}

install_packages() {
	export DIOLKOS_SETUP=1 DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
	trap allow_starting EXIT
	forbid_starting
	apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "$@"
	# Some releases enable them at boot. The lab starts its own in namespaces.
	for service in tayga iperf3 unbound nginx coturn prometheus nfdump rsyslog firewalld frr radvd; do
		case " $* " in *" $service "* | *" $service-light "*) systemctl disable "$service" || update-rc.d "$service" disable || true ;; esac
	done
	case " $* " in *" containernetworking-plugins "*) systemctl disable cni-dhcp.socket cni-dhcp.service || true ;; esac
	case " $* " in *" etcd-server "*) systemctl disable etcd || update-rc.d etcd disable || true ;; esac
	case " $* " in *" network-manager "*)
		systemctl disable NetworkManager NetworkManager-dispatcher NetworkManager-wait-online || true
		;;
	esac
	# Ubuntu starts this one by a socket.
	case " $* " in *" openssh-server "*)
		systemctl disable ssh.socket || true
		systemctl disable ssh || update-rc.d ssh disable || true
		;;
	esac
}

distribution() {
	if ! command -v apt-get >/dev/null; then
		echo "Missing: $(list "${missing[@]}"). There is no apt-get here: install them in this system's way and run this again." >&2
		return 3
	fi
	if [ "$(id -u)" != 0 ]; then
		echo "Missing: $(list "${missing[@]}"). To install it, run: sudo packaging/setup.sh $purpose" >&2
		return 3
	fi
	if [[ " ${packages[*]} " == *:arm64* ]]; then foreign arm64; fi
	"$tools" --root "$step" "Reading the distribution's package lists" $logs/apt-update.log \
		apt-get -o DPkg::Lock::Timeout=300 update -q
	resolve
	[ ${#packages[@]} -eq 0 ] ||
		"$tools" --root "$step" "Installing ${packages[*]}" $logs/apt-install.log \
			packaging/setup.sh install-packages "${packages[@]}"
	look
	if [ ${#missing[@]} -gt 0 ]; then
		echo "Still missing after the installation: $(list "${missing[@]}")." >&2
		[[ " ${missing[*]} " != *rustfmt* && " ${missing[*]} " != *clippy* ]] ||
			echo "A toolchain of rustup gets them with: rustup component add rustfmt clippy" >&2
		[[ " ${missing[*]} " != *"Rust's library"* ]] ||
			echo "A toolchain of rustup gets it with: rustup target add aarch64-unknown-linux-gnu" >&2
		return 3
	fi
}

# Lets apt install packages of another architecture. Ubuntu has those on a server of their own, which apt has to be told.
foreign() { # ARCHITECTURE
	if dpkg --print-foreign-architectures | grep -qx "$1"; then return; fi
	if ! grep -qx 'ID=debian' /etc/os-release; then
		echo "Missing: $(list "${missing[@]}"). Run this on Debian, or tell apt where this distribution has packages of $1," \
			"run dpkg --add-architecture $1, and run this again." >&2
		return 3
	fi
	echo "== dpkg --add-architecture $1 (to undo: dpkg --remove-architecture $1, after the packages of $1 are removed)"
	dpkg --add-architecture "$1"
}

list() {
	local text
	text=$(printf ', %s' "$@")
	echo "${text:2}"
}

# --- Python environment: exactly what the lock file says, made anew when the lock file changes

environment() {
	local lock=lab/requirements.lock hash
	hash=$(sha256sum <"$lock")
	if [ "$(cat .venv/made-from 2>/dev/null)" = "$hash" ] && .venv/bin/python -c 'import diolkos_lab' 2>/dev/null; then return; fi
	"$tools" "$step" "Making the Python environment .venv" $logs/venv.log python3 -m venv --clear .venv
	"$tools" "$step" "Installing the Python packages of $lock" $logs/pip.log \
		.venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r "$lock"
	# shellcheck disable=SC2016 # the inner shell expands it
	"$tools" sh -c 'echo ../../../../lab/src >"$(echo .venv/lib/python3*/site-packages)/diolkos-lab.pth" && echo "$1" >.venv/made-from' \
		sh "$hash"
}

case $purpose in
build | demo | run | switch | lint | fuzz | kernels | deb | arm64)
	look
	[ ${#missing[@]} -eq 0 ] || distribution
	# Packages are built without it.
	case $purpose in deb | arm64) ;; *) environment ;; esac
	;;
install-packages) # from `distribution`, as a step
	install_packages "${@:2}"
	;;
*)
	sed -n '3,14s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
