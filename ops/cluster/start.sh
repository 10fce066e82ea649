#!/bin/sh
# Writes the hub's file for --cluster, and starts it.
set -eu
umask 077
printf '%s\n' "$HUB_PASSWORD" > /tmp/password
unset HUB_PASSWORD
cat > /tmp/cluster.toml <<END
cluster = "desk"
hub = "$HUB"
servers = ["nats://nats-1:4222", "nats://nats-2:4222", "nats://nats-3:4222"]
replicas = 3
user = "$HUB"
password-file = "/tmp/password"
END
# The ports are published on this machine's loopback alone, and Docker's clients come from another address.
set -- serve --cluster /tmp/cluster.toml --protected-mode no --resp 0.0.0.0:6379 --feed 0.0.0.0:9876
if [ -n "${SOURCE:-}" ]; then
    printf 'source = "%s"\n' "$SOURCE" >> /tmp/cluster.toml
    set -- "$@" --source exchange:9870
fi
exec tidewire "$@"
