//! Transactions.

use super::Command;

pub(super) const TRANSACTIONS: &[Command] = &[];
