//! Members with real PostgreSQL, under a real API server.

mod faults;
mod interruptions;
mod ledger;
mod life;
