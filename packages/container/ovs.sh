#!/bin/sh
# Open vSwitch with the plugin in the foreground, and its database beside it.
set -eu
/usr/share/openvswitch/scripts/ovs-ctl --no-ovs-vswitchd --system-id=random start
ovs-vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true \
  other_config:dpdk-extra="-d /usr/lib/vernier/dpdk23/librte_vernier.so -d /usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0"
export LD_PRELOAD=/usr/lib/vernier/dpdk23/libvernier_vhost.so
exec ovs-vswitchd --pidfile unix:/var/run/openvswitch/db.sock
