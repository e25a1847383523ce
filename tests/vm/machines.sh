#!/bin/sh
# usage: machines.sh bridge|netem MACHINES
# Makes the one guest look like several machines: machine I has the link vI with the address 10.9.0.I, on it the
# RDMA device rxeI, and at the other end of the cable the port pI of a switch.
set -eu
layout=$1 machines=$2
everyone=$(seq "$machines")

# A packet from one's own address that comes in from outside is not a mistake here. Links take these from `default`.
for scope in all default; do
  echo 0 >/proc/sys/net/ipv4/conf/$scope/rp_filter
  echo 1 >/proc/sys/net/ipv4/conf/$scope/accept_local
  echo 1 >/proc/sys/net/ipv4/conf/$scope/arp_ignore
done

cables() {
  for i in $everyone; do
    echo "link add v$i mtu 9000 address $(mac "$i") type veth peer name p$i mtu 9000"
  done
}

mac() { printf '02:09:00:00:00:%02x' "$1"; }

switch() {
  echo 'link add name sw0 mtu 9000 type bridge'
  for i in $everyone; do
    echo "link set p$i master sw0 up"
  done
  echo 'link set sw0 up'
}

# RDMA crosses the switch, as do sockets that are bound to a link; others between the machines go over lo.
same_subnet() {
  for i in $everyone; do
    echo "address add 10.9.0.$i/24 dev v$i"
    echo "link set v$i up"
  done
}

# The same with a routing table for each machine and nothing left to ask for: no lost ARP disturbs where netem loses.
policy_routing() {
  for i in $everyone; do
    echo "address add 10.9.0.$i/32 dev v$i"
    echo "link set v$i up"
    echo "rule add pref 10 iif v$i lookup local"
    echo "rule add pref 20 oif v$i lookup $((100 + i))"
    for j in $everyone; do
      [ "$i" != "$j" ] || continue
      echo "neighbour add 10.9.0.$j lladdr $(mac "$j") dev v$i nud permanent"
      echo "route add 10.9.0.$j dev v$i src 10.9.0.$i table $((100 + i))"
    done
  done
  echo 'rule add pref 100 lookup local'
  echo 'rule del pref 0'
}

# Programs take the address by its place, 1, in the table of the device.
wait_until_active() {
  ports=/sys/class/infiniband/rxe$1/ports/1
  for _ in $(seq 100); do
    if grep -q ACTIVE "$ports/state" && grep -q ':ffff:0a09:' "$ports/gids/1" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "rxe$1 does not become active: $(cat "$ports/state"), $(cat "$ports/gids/1")"
  return 1
}

cables | ip -batch -
if [ "$layout" = netem ]; then
  ip netns add switch
  for i in $everyone; do echo "link set p$i netns switch"; done | ip -batch -
  switch | ip -n switch -batch -
  policy_routing | ip -batch -
else
  switch | ip -batch -
  same_subnet | ip -batch -
fi
for i in $everyone; do rdma link add "rxe$i" type rxe netdev "v$i"; done
for i in $everyone; do wait_until_active "$i"; done
