//! The tests of the alert rules and of the dashboard are in `tests`.
