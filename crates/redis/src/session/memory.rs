//! MEMORY, but USAGE, which is a data command.

use tidewire_keyspace::DATABASES;
use tidewire_resp::Writer;

use super::{Call, State};
use crate::counters::HeldMemory;

impl State {
    pub(super) fn memory_purge(&self, call: &mut Call<'_>) {
        tidewire_memory::purge();
        call.server
            .keyspace
            .when_freed(Box::new(tidewire_memory::purge));
        self.reply(call.context, |reply| reply.ok());
    }

    pub(super) fn memory_malloc_stats(&self, call: &mut Call<'_>) {
        let text = tidewire_memory::report();
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }

    pub(super) fn memory_stats(&self, call: &mut Call<'_>) {
        let server = call.server;
        let held = HeldMemory::now(server);
        let keys: Vec<usize> = (0..DATABASES)
            .map(|number| server.keyspace.keys(number))
            .collect();
        let count: u64 = keys.iter().sum::<usize>() as u64;
        let net = held.used - held.startup;
        let states = server.scripting.bytes().into_iter().sum();
        let ratio = held.ratio();
        let excess = held.resident as i64 - held.used as i64;
        let mut fields = Fields::default();
        fields.integer("peak.allocated", held.peak);
        fields.integer("total.allocated", held.used);
        fields.integer("startup.allocated", held.startup);
        fields.integer("replication.backlog", 0);
        fields.integer("clients.slaves", 0);
        fields.integer("clients.normal", held.clients);
        fields.integer("cluster.links", 0);
        fields.integer("aof.buffer", 0);
        fields.integer("lua.caches", server.scripting.scripts.memory_bytes() as u64);
        let libraries = server.scripting.libraries.memory_bytes();
        fields.integer("functions.caches", libraries as u64);
        fields.integer("script.VMs", states);
        for (database, _) in keys.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bytes = server.keyspace.table_bytes(database);
            fields
                .0
                .push((format!("db.{database}"), Figure::Table(bytes as i64)));
        }
        fields.integer("overhead.db.hashtable.lut", held.tables);
        fields.integer("overhead.db.hashtable.rehashing", 0);
        fields.integer("db.dict.rehashing.count", 0);
        fields.integer("overhead.total", held.overhead());
        fields.integer("keys.count", count);
        fields.integer("keys.bytes-per-key", net / count.max(1));
        fields.integer("dataset.bytes", held.dataset());
        fields.double("dataset.percentage", held.dataset_percent());
        fields.double("peak.percentage", held.peak_percent());
        fields.integer("allocator.allocated", held.used);
        fields.integer("allocator.active", held.resident.max(held.used));
        fields.integer("allocator.resident", held.resident.max(held.used));
        fields.integer("allocator.muzzy", 0);
        fields.double("allocator-fragmentation.ratio", ratio);
        fields.integer("allocator-fragmentation.bytes", excess.max(0) as u64);
        fields.double("allocator-rss.ratio", 1.0);
        fields.integer("allocator-rss.bytes", 0);
        fields.double("rss-overhead.ratio", 1.0);
        fields.integer("rss-overhead.bytes", 0);
        fields.double("fragmentation", ratio);
        fields.integer("fragmentation.bytes", excess.max(0) as u64);
        self.reply(call.context, |reply| fields.write(reply));
    }

    /// What is worth a word about memory.
    pub(super) fn memory_doctor(&self, call: &mut Call<'_>) {
        let server = call.server;
        let held = HeldMemory::now(server);
        let clients = (server.clients.len() as u64).max(1);
        let mut findings = Vec::new();
        if held.used < SMALL_BYTES {
            findings.push("Sam, there is little in memory yet: nothing can be told of it.");
        } else {
            if held.used * 3 < held.peak * 2 {
                findings.push(
                    "Sam, there was much more in memory once: what was freed since then may not \
                     all have gone back to the system. MEMORY PURGE gives back what it can.",
                );
            }
            if held.ratio() > 1.4 && held.resident - held.used > FRAGMENTS_BYTES {
                findings.push(
                    "Sam, the system gives 1.4 times as much memory as is in use: freed blocks \
                     lie between others. MEMORY PURGE gives back what it can.",
                );
            }
            if held.clients / clients > CLIENT_BYTES {
                findings.push(
                    "Sam, clients hold more than 200 KB each: some do not read their replies, or \
                     send requests that long. See CLIENT LIST and maxmemory-clients.",
                );
            }
            if server.scripting.scripts.count() > SCRIPTS {
                findings.push(
                    "Sam, there are more than a thousand scripts: are they made anew for each \
                     call? What changes belongs into KEYS and ARGV.",
                );
            }
        }
        if findings.is_empty() {
            findings.push("Sam, I have found nothing that is wrong with memory.");
        }
        let text = findings.join("\n\n");
        self.reply(call.context, |reply| reply.verbatim("txt", text.as_bytes()));
    }
}

/// The fields of MEMORY STATS, in order.
#[derive(Default)]
struct Fields(Vec<(String, Figure)>);

enum Figure {
    Integer(i64),
    Double(f64),
    /// A database's: what its table takes.
    Table(i64),
}

impl Fields {
    fn integer(&mut self, name: &str, value: u64) {
        self.0
            .push((name.to_owned(), Figure::Integer(value as i64)));
    }

    fn double(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), Figure::Double(value)));
    }

    fn write(&self, reply: &mut Writer<'_>) {
        reply.map(self.0.len());
        for (name, value) in &self.0 {
            reply.bulk(name.as_bytes());
            match *value {
                Figure::Integer(number) => reply.integer(number),
                Figure::Double(number) => reply.double(number),
                Figure::Table(bytes) => {
                    reply.map(2);
                    reply.bulk(b"overhead.hashtable.main");
                    reply.integer(bytes);
                    reply.bulk(b"overhead.hashtable.expires");
                    reply.integer(0);
                }
            }
        }
    }
}

/// Below, there is nothing to be said.
const SMALL_BYTES: u64 = 5 << 20;
const FRAGMENTS_BYTES: u64 = 10 << 20;
/// Many bytes for one client.
const CLIENT_BYTES: u64 = 200 << 10;
/// Many scripts.
const SCRIPTS: usize = 1_000;
