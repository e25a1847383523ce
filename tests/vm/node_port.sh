#!/bin/sh
# usage: node_port.sh MACHINES
# In the layout for netem: plugs a cable into the switch for a node without an RDMA device. The node's end is n0, for
# DPDK; q0 is the switch's. The machines find the node at 10.9.0.100.
set -eu
mac=02:09:00:00:01:00
ip link add n0 mtu 9000 address $mac type veth peer name q0 mtu 9000
ip link set q0 netns switch
ip -n switch link set q0 master sw0 up
ip link set n0 up
for i in $(seq "$1"); do # as machines.sh does it between its machines
  ip neighbour add 10.9.0.100 lladdr $mac dev "v$i" nud permanent
  ip route add 10.9.0.100 dev "v$i" src "10.9.0.$i" table $((100 + i))
done
