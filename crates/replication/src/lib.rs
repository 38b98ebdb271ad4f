//! wip
#![allow(dead_code)]
mod fast_template;
mod generator;
