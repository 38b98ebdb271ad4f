//! Tests of the alert rules and the dashboard, see `tests`.
