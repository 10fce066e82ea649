//! Native market-data feed, recovery, DBN and order book, without I/O.
