#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_mdp::fuzzing::fuzz_mdp(data));
