//! DUMP and RESTORE.
