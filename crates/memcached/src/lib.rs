//! Memcached runs a cache of a given size and says where it is.
