//! Namespaces furnished from a class.
//!
//! - [`binding`]: a namespace's label decides whether it has a binding, and to which class.
//! - [`resources`]: a binding decides which objects of its class exist in the namespace.
//! - [`author`]: what whoever writes a class must hold.
//! - [`blueprint`]: a whole class, checked, and what it means for one namespace.
//! - [`class`]: what a class says about itself and its namespaces.
//! - [`difference`]: where an object differs from its manifest.
//! - [`excess`]: what an object has beyond its manifest.
//! - [`gate`]: whether Pods wait until a namespace has what its class says.
//! - [`inventory`]: what a binding records about the objects it made.
//! - [`manifest`]: what a manifest in a class must look like and what is made of it.
//! - [`rollout`]: how a change of a class reaches its namespaces.
//! - [`sight`]: what can be told of a kind, by discovery and by its watch.
//! - [`template`]: how a manifest is filled in for one namespace.
//! - [`witness`]: by what an object tells that somebody changed it.
//! - [`params`]: the inputs of a class and where a namespace gives them.

pub mod author;
pub mod binding;
pub mod blueprint;
pub mod class;
pub mod difference;
pub mod excess;
mod field;
pub mod gate;
pub mod inventory;
pub mod manifest;
pub mod params;
pub mod resources;
pub mod rights;
pub mod rollout;
pub mod sight;
pub mod template;
pub mod witness;
