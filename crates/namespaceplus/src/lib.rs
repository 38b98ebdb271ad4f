//! NamespacePlus gives a team a namespace with its quota, rights and policies.

pub mod api;
