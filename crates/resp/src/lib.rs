//! RESP2/RESP3 wire format: incremental request parser and reply encoder, without I/O.
