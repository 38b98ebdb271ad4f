//! PodSet keeps a number of pods running.
