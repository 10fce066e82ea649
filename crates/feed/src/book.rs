//! Order book by order, kept to its top.
