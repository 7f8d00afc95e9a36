//! Haloport.
