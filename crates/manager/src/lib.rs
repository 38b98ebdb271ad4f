//! One process that runs the controllers its flags name.
