//! What users see through the proxy, with kubectl and with other clients.

mod clients;
mod identities;
mod lists;
mod operation;
mod pass_through;
mod restarts;
mod settings;
mod tenants;
mod watches;
