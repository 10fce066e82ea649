//! Cluster commands. This server is in no cluster and refuses all of them.

use super::{Command, Group, Run, command};

#[rustfmt::skip]
pub(super) const CLUSTER: &[Command] = &[
    part("asking", 1, "fast", "3.0.0", "Goes to a slot that is moving.").categories("connection"),
    part("readonly", 1, "loading stale fast", "3.0.0", "Reads from replicas.")
        .categories("connection"),
    part("readwrite", 1, "loading stale fast", "3.0.0", "Reads from masters again.")
        .categories("connection"),
    command("cluster", -2, "", Group::Cluster, "3.0.0", Run::Container)
        .docs("Cluster commands.", "Depends on subcommand."),
    part("cluster|addslots", -3, CHANGE, "3.0.0", "Assigns slots.").syntax("slot:i+"),
    part("cluster|addslotsrange", -4, CHANGE, "7.0.0", "Assigns ranges of slots.")
        .syntax("range(start-slot:i end-slot:i)+"),
    part("cluster|bumpepoch", 2, CHANGE, "3.0.0", "Advances the epoch.")
        .tips("nondeterministic_output"),
    part("cluster|count-failure-reports", 3, LOOK, "3.0.0", "Counts reports of failure.")
        .tips("nondeterministic_output").syntax("node-id"),
    part("cluster|countkeysinslot", 3, "stale", "3.0.0", "Counts the keys of a slot.")
        .syntax("slot:i"),
    part("cluster|delslots", -3, CHANGE, "3.0.0", "Removes slots.").syntax("slot:i+"),
    part("cluster|delslotsrange", -4, CHANGE, "7.0.0", "Removes ranges of slots.")
        .syntax("range(start-slot:i end-slot:i)+"),
    part("cluster|failover", -2, CHANGE, "3.0.0", "Promotes a replica.")
        .syntax("[options(FORCE | TAKEOVER)]"),
    part("cluster|flushslots", 2, CHANGE, "3.0.0", "Removes all slots."),
    part("cluster|forget", 3, CHANGE, "3.0.0", "Removes a node.").syntax("node-id"),
    part("cluster|getkeysinslot", 4, "stale", "3.0.0", "Lists keys of a slot.")
        .tips("nondeterministic_output").syntax("slot:i count:i"),
    part("cluster|help", 2, "loading stale", "5.0.0", "Lists the subcommands."),
    part("cluster|info", 2, "stale", "3.0.0", "Returns the state of the cluster.")
        .tips("nondeterministic_output"),
    part("cluster|keyslot", 3, "stale", "3.0.0", "Returns the slot of a key.").syntax("key"),
    part("cluster|links", 2, "stale", "7.0.0", "Lists the links between nodes.")
        .tips("nondeterministic_output"),
    part("cluster|meet", -4, CHANGE, "3.0.0", "Meets another node.")
        .syntax("ip port:i [cluster-bus-port:i]"),
    part("cluster|myid", 2, "stale", "3.0.0", "Returns the id of this node."),
    part("cluster|myshardid", 2, "stale", "7.2.0", "Returns the shard id of this node.")
        .tips("nondeterministic_output"),
    part("cluster|nodes", 2, "stale", "3.0.0", "Lists the nodes.").tips("nondeterministic_output"),
    part("cluster|replicas", 3, LOOK, "5.0.0", "Lists a node's replicas.")
        .tips("nondeterministic_output").syntax("node-id"),
    part("cluster|replicate", 3, CHANGE, "3.0.0", "Makes this node a replica.").syntax("node-id"),
    part("cluster|reset", -2, "admin noscript stale", "3.0.0", "Resets the node.")
        .syntax("[reset-type(HARD | SOFT)]"),
    part("cluster|saveconfig", 2, CHANGE, "3.0.0", "Writes what is known of nodes."),
    part("cluster|set-config-epoch", 3, CHANGE, "3.0.0", "Sets the epoch of a new node.")
        .syntax("config-epoch:i"),
    part("cluster|setslot", -4, CHANGE, "3.0.0", "Assigns a slot to a node.")
        .syntax("slot:i subcommand(IMPORTING=importing<node-id> | MIGRATING=migrating<node-id> | \
            NODE=node<node-id> | STABLE)"),
    part("cluster|shards", 2, "loading stale", "7.0.0", "Lists the shards.")
        .tips("nondeterministic_output"),
    part("cluster|slaves", 3, LOOK, "3.0.0", "Lists a node's replicas.")
        .tips("nondeterministic_output").syntax("node-id"),
    part("cluster|slots", 2, "loading stale", "3.0.0", "Lists who has which slots.")
        .tips("nondeterministic_output"),
];

const CHANGE: &str = "admin stale no_async_loading";
const LOOK: &str = "admin stale";

const fn part(
    full_name: &'static str,
    arity: i16,
    flags: &'static str,
    since: &'static str,
    summary: &'static str,
) -> Command {
    let run = Run::Session;
    command(full_name, arity, flags, Group::Cluster, since, run).docs(summary, "O(1)")
}
