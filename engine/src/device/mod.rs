//! Devices: what is there, and what they say of themselves.
