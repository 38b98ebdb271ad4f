//! The webhook server, asked by a real API server.

mod admission;
mod conversion;
mod handlers;
mod sails;
mod stage;
