//! Members with real PostgreSQL, under a real API server.

mod faults;
mod ledger;
mod life;
