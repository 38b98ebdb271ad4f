//! What users see through the proxy, with kubectl and with other clients.

mod client_certificates;
mod clients;
mod identities;
mod lists;
mod missing_namespaces;
mod namespaces;
mod operation;
mod pass_through;
mod restarts;
mod role_bindings;
mod settings;
mod tenants;
mod watches;
