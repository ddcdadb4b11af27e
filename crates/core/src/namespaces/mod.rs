//! Namespaces furnished from a class.
//!
//! - [`binding`]: a namespace's label decides whether it has a binding, and to which class.
//! - [`resources`]: a binding decides which objects of its class exist in the namespace.
//! - [`blueprint`]: a whole class, checked, and what it means for one namespace.
//! - [`class`]: what a class says about itself and its namespaces.
//! - [`inventory`]: what a binding records about the objects it made.
//! - [`manifest`]: what a manifest in a class must look like and what is made of it.
//! - [`rollout`]: how a change of a class reaches its namespaces.
//! - [`template`]: how a manifest is filled in for one namespace.
//! - [`witness`]: by what an object tells that somebody changed it.
//! - [`params`]: the inputs of a class and where a namespace gives them.

pub mod binding;
pub mod blueprint;
pub mod class;
mod field;
pub mod inventory;
pub mod manifest;
pub mod params;
pub mod resources;
pub mod rollout;
pub mod template;
pub mod witness;
