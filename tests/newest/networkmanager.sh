#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# NetworkManager of another installation: networkmanager.sh FOLDER INSTALLATION IPV4-LINES
# It runs as process 1 of its mount, UTS and PID namespaces, in the network namespace of one of a test's hosts.
set -eu
memory=$1/memory root=$1/memory/root

mount --make-rprivate /
mkdir "$memory"
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
mkdir -p "$root/run/dbus" "$root/run/profiles"
rm -rf "$root/etc/NetworkManager"
mkdir -p "$root/etc/NetworkManager/conf.d"
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
	match-device=interface-name:wan0
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
	interface-name=wan0
	[ipv4]
	$3
	[ipv6]
	method=auto
END
chmod 600 "$root"/run/profiles/*
cat >"$root/run/start" <<-'END'
	dbus-daemon --config-file=/run/bus.conf --nofork --nopidfile &
	until [ -S /run/dbus/system_bus_socket ]; do sleep 0.05; done
	NetworkManager --debug &
	until nmcli -t -f RUNNING general 2>/dev/null | grep -q running; do sleep 0.05; done
	echo "it runs"
	wait
END
exec chroot "$root" sh /run/start
