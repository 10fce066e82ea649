#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_keyspace::fuzzing::fuzz_rdb_file(data));
