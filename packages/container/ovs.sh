#!/bin/sh
# Open vSwitch with the plugin in the foreground, and its database beside it.
set -eu
/usr/share/openvswitch/scripts/ovs-ctl --no-ovs-vswitchd --system-id=random start
ovs-vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true \
  other_config:dpdk-extra="$(vernier plugin-args)"
export LD_PRELOAD=/usr/lib/vernier/libvernier_vhost.so
exec ovs-vswitchd --pidfile unix:/var/run/openvswitch/db.sock
