#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# NetworkManager of an installation: networkmanager.sh FOLDER INSTALLATION INTERFACE IPV4-LINES
# It runs in the network namespace of one host, in UTS and PID namespaces of its own, and in the mount namespace that it is
# started in, which has to be private. SIGTERM ends all of it; so does the death of this process.
# It manages INTERFACE and nothing else, by the profile `uplink`, whose section [ipv4] is IPV4-LINES. IPv6 is by router
# advertisements. INSTALLATION, which may be /, stays as it is: everything is written to a layer in memory.
#
# It says "it runs", and then, if the lines have clat=, "its CLAT is there".
set -eu
memory=$1/memory root=$1/memory/root

if [ $$ -ne 1 ]; then
	setpriv --pdeathsig KILL unshare --uts --pid --fork --kill-child sh "$0" "$@" &
	spaces=$!
	# unshare(1) takes no order. It ends after its child, and that after all others of its PID namespace.
	trap 'kill -KILL $(cat "/proc/$spaces/task/$spaces/children")' TERM
	wait "$spaces" || wait "$spaces"
	exit
fi

mkdir -p "$memory"
mount -t tmpfs none "$memory"
mkdir "$root" "$memory/upper" "$memory/work"
mount -t overlay -o "lowerdir=$2,upperdir=$memory/upper,workdir=$memory/work" none "$root"
mount -t proc proc "$root/proc"
# It waits for no udev where /sys is read-only.
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
	: >"$root/dev/$name"
	mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/tmp"
mount -t tmpfs none "$root/var/lib/NetworkManager"
mkdir -p "$root/run/dbus" "$root/run/profiles"
rm -rf "$root/etc/NetworkManager"
mkdir -p "$root/etc/NetworkManager/conf.d"
# A bus of its own: the host's is never asked.
cat >"$root/run/bus.conf" <<-END
	<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
	<policy context="default"><allow user="*"/><allow own="*"/>
	<allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
END
cat >"$root/etc/NetworkManager/NetworkManager.conf" <<-END
	[main]
	plugins=keyfile
	dns=none
	rc-manager=unmanaged
	auth-polkit=false
	no-auto-default=*
	[device-uplink]
	match-device=interface-name:$3
	managed=1
	[keyfile]
	path=/run/profiles
END
# As docs/networkmanager.md says.
printf '%s\n' '[keyfile]' 'unmanaged-devices=interface-name:diolkos*' >"$root/etc/NetworkManager/conf.d/diolkos.conf"
cat >"$root/run/profiles/uplink.nmconnection" <<-END
	[connection]
	id=uplink
	type=ethernet
	interface-name=$3
	[ipv4]
	$4
	[ipv6]
	method=auto
END
chmod 600 "$root"/run/profiles/*
case $4 in
*clat=*) clat=yes ;;
*) clat=no ;;
esac
cat >"$root/run/start" <<-'END'
	export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket
	export PATH=/usr/sbin:/usr/bin:/sbin:/bin
	dbus-daemon --config-file=/run/bus.conf --nofork --nopidfile &
	until [ -S /run/dbus/system_bus_socket ]; do sleep 0.05; done
	NetworkManager --debug &
	manager=$!
	# What process 1 waits for in vain ends with it.
	(
		until nmcli -t -f RUNNING general 2>/dev/null | grep -q running; do sleep 0.05; done
		echo "it runs"
		[ "$2" = yes ] || exit 0
		until nmcli -g IP4.ADDRESS device show "$1" | grep -q '^192\.0\.0\.'; do sleep 0.1; done
		echo "its CLAT is there"
	) &
	wait "$manager"
END
exec chroot "$root" sh /run/start "$3" "$clat"
