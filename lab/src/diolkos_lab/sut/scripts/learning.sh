#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Has a P4 switch learn sessions itself: learning.sh LEARN.PY SOCKET PREF64 POOL SHADOW6 HOST6 SHADOW4 HOST4
# SHADOW6 is that of port 0, SHADOW4 that of port 2. The kernel finds the link-layer addresses of both hosts.
set -eu
learn=$1 socket=$2 pref64=$3 pool=$4 shadow6=$5 host6=$6 shadow4=$7 host4=$8

of_host() { # SHADOW, HOST
	for _ in 1 2 3 4 5; do
		ping -n -q -c 1 -W 1 "$2" >/dev/null 2>&1 || true
		found=$(ip neighbour show "$2" dev "$1" | sed -n 's/.*lladdr \([0-9a-f:]*\).*/\1/p')
		[ -z "$found" ] || break
	done
	[ -n "$found" ] || echo "$2 does not answer on $1" >&2
	echo "$found"
}

# Below /sys may be another namespace's devices.
own() { ip link show dev "$1" | sed -n 's/.*link\/ether \([0-9a-f:]*\).*/\1/p'; } # SHADOW

own6=$(own "$shadow6") own4=$(own "$shadow4")
python3 "$learn" --control "$socket" --pref64 "$pref64" --pool "$pool" --local "$own6" --local "$own4" \
	--hop "::/0=0,$(of_host "$shadow6" "$host6"),$own6" --hop "0.0.0.0/0=2,$(of_host "$shadow4" "$host4"),$own4"
echo "ready: the switch learns"
exec sleep infinity
