//! The kernel's edge: the only crate of the project with `unsafe`.
