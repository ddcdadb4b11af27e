//! Nothing that anybody can write into an object makes the core panic, hang or answer without bounds.

mod backup;
mod classes;
mod dice;
mod json;
mod quantities;
mod storage;
