#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidewire_zmtp::fuzzing::fuzz_zmtp_datagram(data));
