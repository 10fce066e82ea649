//! Commands about a cluster, of which this server is no part: all of them are refused alike.

use super::{Command, Group, Run, SessionCommand, command};

pub(super) const CLUSTER: &[Command] = &[
    part(
        "asking",
        1,
        "fast",
        "3.0.0",
        "Goes to a slot that is moving.",
    )
    .categories("connection"),
    part(
        "readonly",
        1,
        "loading stale fast",
        "3.0.0",
        "Reads from replicas.",
    )
    .categories("connection"),
    part(
        "readwrite",
        1,
        "loading stale fast",
        "3.0.0",
        "Reads from masters again.",
    )
    .categories("connection"),
    command("cluster", -2, "", Group::Cluster, "3.0.0", Run::Container)
        .docs("Looks after a cluster.", "Depends on subcommand.")
        .subcommands(&[
            part("cluster|addslots", -3, CHANGE, "3.0.0", "Takes slots."),
            part(
                "cluster|addslotsrange",
                -4,
                CHANGE,
                "7.0.0",
                "Takes ranges of slots.",
            ),
            part(
                "cluster|bumpepoch",
                2,
                CHANGE,
                "3.0.0",
                "Advances the epoch.",
            ),
            part(
                "cluster|count-failure-reports",
                3,
                LOOK,
                "3.0.0",
                "Counts reports of failure.",
            ),
            part(
                "cluster|countkeysinslot",
                3,
                "stale",
                "3.0.0",
                "Counts the keys of a slot.",
            ),
            part("cluster|delslots", -3, CHANGE, "3.0.0", "Gives slots up."),
            part(
                "cluster|delslotsrange",
                -4,
                CHANGE,
                "7.0.0",
                "Gives ranges of slots up.",
            ),
            part(
                "cluster|failover",
                -2,
                CHANGE,
                "3.0.0",
                "Makes a replica the master.",
            ),
            part(
                "cluster|flushslots",
                2,
                CHANGE,
                "3.0.0",
                "Gives all slots up.",
            ),
            part("cluster|forget", 3, CHANGE, "3.0.0", "Forgets a node."),
            part(
                "cluster|getkeysinslot",
                4,
                "stale",
                "3.0.0",
                "Lists keys of a slot.",
            ),
            part(
                "cluster|help",
                2,
                "loading stale",
                "5.0.0",
                "Lists the subcommands.",
            ),
            part(
                "cluster|info",
                2,
                "stale",
                "3.0.0",
                "Tells about the cluster.",
            ),
            part(
                "cluster|keyslot",
                3,
                "stale",
                "3.0.0",
                "Tells the slot of a key.",
            ),
            part(
                "cluster|links",
                2,
                "stale",
                "7.0.0",
                "Lists the links between nodes.",
            ),
            part("cluster|meet", -4, CHANGE, "3.0.0", "Meets another node."),
            part("cluster|myid", 2, "stale", "3.0.0", "Names this node."),
            part(
                "cluster|myshardid",
                2,
                "stale",
                "7.2.0",
                "Names this node's shard.",
            ),
            part("cluster|nodes", 2, "stale", "3.0.0", "Lists the nodes."),
            part(
                "cluster|replicas",
                3,
                LOOK,
                "5.0.0",
                "Lists a node's replicas.",
            ),
            part(
                "cluster|replicate",
                3,
                CHANGE,
                "3.0.0",
                "Makes this node a replica.",
            ),
            part(
                "cluster|reset",
                -2,
                "admin noscript stale",
                "3.0.0",
                "Makes the node as new.",
            ),
            part(
                "cluster|saveconfig",
                2,
                CHANGE,
                "3.0.0",
                "Writes what is known of nodes.",
            ),
            part(
                "cluster|set-config-epoch",
                3,
                CHANGE,
                "3.0.0",
                "Sets the epoch of a new node.",
            ),
            part(
                "cluster|setslot",
                -4,
                CHANGE,
                "3.0.0",
                "Gives a slot to a node.",
            ),
            part(
                "cluster|shards",
                2,
                "loading stale",
                "7.0.0",
                "Lists the shards.",
            ),
            part(
                "cluster|slaves",
                3,
                LOOK,
                "3.0.0",
                "Lists a node's replicas.",
            ),
            part(
                "cluster|slots",
                2,
                "loading stale",
                "3.0.0",
                "Lists who has which slots.",
            ),
        ]),
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
    let run = Run::Session(SessionCommand::Cluster);
    command(full_name, arity, flags, Group::Cluster, since, run).docs(summary, "O(1)")
}
